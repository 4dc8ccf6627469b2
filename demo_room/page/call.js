// One conversation: it begins with a click, survives broken connections, and ends once.
//
// What carries it is a line, `webrtc.js` or `livekit.js`; the server says which.  A line has
//   connect(stream)          comes into the room, anew if need be; rejects with a Refusal
//   send(message)            a command for Venus; false when it cannot be sent now
//   mute(muted), replace(track)
//   show(track)              a camera's track, if the session sees; null when it is off
//   tick(now, loudness)      often: acknowledgements and signs of life
//   silentFor(now)           milliseconds without any sign of life from the other end
//   close(goodbye)
// and tells its handlers: message(object), remote(stream), broken(code), wavering(), steady().

import * as api from "./api.js";

const TICK_MS = 100;
const SILENCE_MS = 8000;
const BACKOFF_MS = [200, 500, 1000, 2000, 3000];
const MENDABLE = new Set(["lost", "livekit_down"]);
const FINAL = new Set(["shutdown", "session_ended", "session_failed", "page_gone", "no_page", "left", "closed"]);

const later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function lineOf(transport) {
  try {
    return transport === "livekit" ? (await import("./livekit.js")).LiveKitLine : (await import("./webrtc.js")).WebRtcLine;
  } catch {
    throw new api.Refusal("offline", "no answer");
  }
}

export class Call {
  #handlers;
  #session = null;
  #microphone = null;
  #muted = false;
  #camera = null;
  #line = null;
  #connected = false;
  #wavering = false;
  #ticker = null;
  #ended = false;
  #mending = false;

  // Handlers: state(name, code), event(timelineEvent), remote(stream), outputLatency() in seconds.
  constructor(handlers) {
    this.#handlers = handlers;
  }

  // `microphone` is a MediaStream, or null for typing only.  Rejects with a Refusal when the call cannot begin.
  async start(transport, microphone, choice, key) {
    this.#microphone = microphone;
    this.#handlers.state("connecting");
    try {
      const line = lineOf(transport); // comes while the session begins
      line.catch(() => {});
      this.#session = await api.begin(choice, key);
      this.#line = new (await line)(this.#session, {
        message: (message) => this.#receive(message),
        remote: (stream) => this.#handlers.remote(stream),
        outputLatency: () => this.#handlers.outputLatency(),
        broken: (code) => this.#broken(code),
        wavering: () => this.#waver(true),
        steady: () => this.#waver(false),
      });
      await this.#connect();
    } catch (error) {
      if (this.#session) api.leave(this.#session.token);
      this.#stop(false);
      throw error;
    }
    this.#ticker = setInterval(() => this.tick(), TICK_MS);
    this.#handlers.state("connected");
  }

  get ended() {
    return this.#ended;
  }

  get muted() {
    return this.#muted;
  }

  send(message) {
    return this.#connected && this.#line.send(message);
  }

  mute(muted) {
    this.#muted = muted;
    for (const track of this.#microphone?.getAudioTracks() ?? []) track.enabled = !muted;
    if (this.#connected) this.#line.mute(muted);
  }

  // Whether Venus can see in this conversation.
  get sees() {
    return this.#session?.can_see ?? false;
  }

  // The track of a camera, or null; who gave it stops it.
  show(track) {
    this.#camera = track;
    if (this.#connected) this.#showCamera();
  }

  async useMicrophone(stream) {
    const old = this.#microphone;
    this.#microphone = stream;
    this.mute(this.#muted);
    await this.#line?.replace(stream.getAudioTracks()[0]);
    for (const track of old?.getTracks() ?? []) track.stop();
  }

  hangUp() {
    this.#finish("ended");
  }

  // For an unloading page: no waiting, no events.
  abandon() {
    if (this.#session && !this.#ended) api.leave(this.#session.token);
  }

  // Called by a timer and, since browsers slow timers of hidden pages, by the meter on the audio thread too.
  // `loudness` is Venus's, as it is being played; unknown without a meter.
  tick(loudness) {
    if (this.#ended || this.#mending || !this.#connected) return;
    const now = performance.now();
    this.#line.tick(now, loudness);
    if (this.#line.silentFor(now) > SILENCE_MS) this.#mend("lost");
  }

  async #connect() {
    this.#connected = false;
    await this.#line.connect(this.#microphone);
    if (this.#ended) {
      this.#line.close(false);
      return;
    }
    this.#connected = true;
    this.#wavering = false;
    if (this.#muted) this.#line.mute(true);
    if (this.#camera) this.#showCamera();
  }

  async #showCamera() {
    try {
      await this.#line.show(this.#camera);
    } catch (error) {
      if (this.#connected) this.#receive({ type: "trouble", code: "camera_unsent", message: error.message, fatal: false });
    }
  }

  #receive(message) {
    if (this.#ended) return;
    if (message.type !== "closing") this.#handlers.event(message);
    else if (FINAL.has(message.reason)) this.#finish(message.reason);
  }

  // A line that mends itself says so; if it cannot, it is broken.
  #waver(wavering) {
    if (this.#ended || this.#mending || !this.#connected || wavering === this.#wavering) return;
    this.#wavering = wavering;
    this.#handlers.state(wavering ? "reconnecting" : "connected");
  }

  // Not every break is worth coming back from.
  #broken(code) {
    if (this.#ended || !this.#connected) return;
    if (MENDABLE.has(code)) this.#mend(code);
    else this.#finish(code);
  }

  async #mend(code) {
    if (this.#mending || this.#ended) return;
    this.#mending = true;
    this.#connected = false;
    if (!this.#wavering) this.#handlers.state("reconnecting");
    const until = performance.now() + this.#session.grace_s * 1000;
    for (let attempt = 0; !this.#ended && performance.now() < until; attempt += 1) {
      try {
        await this.#connect();
        this.#mending = false;
        if (!this.#ended) this.#handlers.state("connected");
        return;
      } catch (error) {
        if (error.code === "gone") break;
        if (error.code === "offline" || MENDABLE.has(error.code)) code = error.code;
      }
      await later(BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)]);
    }
    this.#mending = false;
    this.#finish(code);
  }

  #finish(code) {
    if (this.#ended) return;
    if (this.#session) api.leave(this.#session.token);
    this.#stop(true);
    this.#handlers.state("ended", code);
  }

  #stop(goodbye) {
    this.#ended = true;
    this.#connected = false;
    clearInterval(this.#ticker);
    this.#line?.close(goodbye);
    for (const track of this.#microphone?.getTracks() ?? []) track.stop();
  }
}
