// The data channel "events": one JSON object per message, long ones in pieces, and signs of life both ways.

import { Pieces } from "./pieces.js";

const PING_MS = 2000;

export class EventChannel {
  #channel;
  #onMessage;
  #pieces = new Pieces();
  #pinged = 0;
  heardAt = performance.now();

  constructor(channel, onMessage) {
    this.#channel = channel;
    this.#onMessage = onMessage;
    channel.addEventListener("message", ({ data }) => this.#receive(data));
  }

  get open() {
    return this.#channel.readyState === "open";
  }

  send(message) {
    if (!this.open) return false;
    this.#channel.send(JSON.stringify(message));
    return true;
  }

  // Call it often; it pings when it is time.
  tick(now) {
    if (now - this.#pinged < PING_MS) return;
    this.#pinged = now;
    this.send({ type: "ping" });
  }

  #receive(data) {
    this.heardAt = performance.now();
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return;
    }
    if (message.type === "ping") this.send({ type: "pong" });
    else if (message.type !== "pong") {
      const whole = this.#pieces.join(message);
      if (whole !== null) this.#onMessage(whole);
    }
  }
}
