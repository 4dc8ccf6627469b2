// One conversation: it begins with a click, survives broken connections, and ends once.

import * as api from "./api.js";
import { EventChannel } from "./channel.js";

const ACK_MS = 200;
const CANDIDATES_MS = 2000;
const OPEN_MS = 10000;
const SILENCE_MS = 8000;
const BACKOFF_MS = [200, 500, 1000, 2000, 3000];
const RTP_HZ = 48000;
const FINAL = new Set(["shutdown", "session_ended", "session_failed", "page_gone", "no_page", "left", "closed"]);

const later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Call {
  #handlers;
  #session = null;
  #resume = "";
  #microphone = null;
  #muted = false;
  #connection = null;
  #channel = null;
  #sender = null;
  #receiver = null;
  #ticker = null;
  #acked = { at: 0, rtp: -1 };
  #movedAt = 0;
  #ended = false;
  #mending = false;

  // Handlers: state(name, code), event(timelineEvent), remote(stream), outputLatency() in seconds.
  constructor(handlers) {
    this.#handlers = handlers;
  }

  // `microphone` is a MediaStream, or null for typing only.  Rejects with a Refusal when the call cannot begin.
  async start(microphone, choice, key) {
    this.#microphone = microphone;
    this.#handlers.state("connecting");
    try {
      this.#session = await api.begin(choice, key);
      await this.#connect();
    } catch (error) {
      if (this.#session) api.leave(this.#session.token);
      this.#stop();
      throw error;
    }
    this.#ticker = setInterval(() => this.tick(), ACK_MS / 2);
    this.#handlers.state("connected");
  }

  get ended() {
    return this.#ended;
  }

  get muted() {
    return this.#muted;
  }

  send(message) {
    return this.#channel?.send(message) ?? false;
  }

  mute(muted) {
    this.#muted = muted;
    for (const track of this.#microphone?.getAudioTracks() ?? []) track.enabled = !muted;
  }

  async useMicrophone(stream) {
    const old = this.#microphone;
    this.#microphone = stream;
    this.mute(this.#muted);
    await this.#sender?.replaceTrack(stream.getAudioTracks()[0]);
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
  tick() {
    if (this.#ended || this.#mending || !this.#channel) return;
    const now = performance.now();
    this.#channel.tick(now);
    this.#acknowledge(now);
    if (now - Math.max(this.#channel.heardAt, this.#movedAt) > SILENCE_MS) this.#mend();
  }

  #acknowledge(now) {
    if (now - this.#acked.at < ACK_MS) return;
    const source = this.#receiver?.getSynchronizationSources?.()[0];
    if (!source || source.rtpTimestamp === undefined || source.rtpTimestamp === this.#acked.rtp) return;
    this.#acked = { at: now, rtp: source.rtpTimestamp };
    this.#movedAt = now;
    const delay = Math.round(this.#handlers.outputLatency() * RTP_HZ);
    this.#channel.send({ type: "ack", rtp: (source.rtpTimestamp - delay + 2 ** 32) % 2 ** 32 });
  }

  async #connect() {
    if (!window.RTCPeerConnection) throw new api.Refusal("unsupported", "");
    this.#drop();
    const connection = new RTCPeerConnection({ iceServers: this.#session.ice_servers, bundlePolicy: "max-bundle" });
    this.#connection = connection;
    const track = this.#microphone?.getAudioTracks()[0];
    const voice = track
      ? connection.addTransceiver(track, { direction: "sendrecv", streams: [this.#microphone] })
      : connection.addTransceiver("audio", { direction: "recvonly" });
    this.#sender = track ? voice.sender : null;
    this.#receiver = voice.receiver;
    connection.addEventListener("track", (event) => {
      this.#handlers.remote(event.streams[0] ?? new MediaStream([event.track]));
    });
    const raw = connection.createDataChannel("events", { ordered: true });
    const opened = new Promise((resolve) => raw.addEventListener("open", resolve, { once: true }));
    const channel = new EventChannel(raw, (message) => this.#receive(connection, message));

    await connection.setLocalDescription();
    await this.#gathered(connection);
    const { type, sdp } = connection.localDescription;
    const answer = await api.offer({ token: this.#session.token, type, sdp, resume: this.#resume });
    this.#resume = answer.resume;
    await connection.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    const open = await Promise.race([opened.then(() => true), later(OPEN_MS).then(() => false)]);
    if (!open) throw new api.Refusal("no_media", "");
    if (this.#ended) return;

    channel.heardAt = this.#movedAt = performance.now();
    this.#acked = { at: 0, rtp: -1 };
    this.#channel = channel;
    raw.addEventListener("close", () => this.#broken(connection));
    connection.addEventListener("connectionstatechange", () => {
      if (connection.connectionState === "failed" || connection.connectionState === "closed") this.#broken(connection);
    });
  }

  async #gathered(connection) {
    if (connection.iceGatheringState === "complete") return;
    const complete = new Promise((resolve) => {
      connection.addEventListener("icegatheringstatechange", () => {
        if (connection.iceGatheringState === "complete") resolve();
      });
    });
    await Promise.race([complete, later(CANDIDATES_MS)]);
  }

  #receive(connection, message) {
    if (connection !== this.#connection) return;
    if (message.type !== "closing") this.#handlers.event(message);
    else if (FINAL.has(message.reason)) this.#finish(message.reason);
  }

  #broken(connection) {
    if (connection === this.#connection && !this.#ended) this.#mend();
  }

  async #mend() {
    if (this.#mending || this.#ended) return;
    this.#mending = true;
    this.#handlers.state("reconnecting");
    const until = performance.now() + this.#session.grace_s * 1000;
    let code = "lost";
    for (let attempt = 0; !this.#ended && performance.now() < until; attempt += 1) {
      try {
        await this.#connect();
        this.#mending = false;
        if (!this.#ended) this.#handlers.state("connected");
        return;
      } catch (error) {
        if (error.code === "gone") break;
        if (error.code === "offline") code = "offline";
      }
      await later(BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)]);
    }
    this.#mending = false;
    this.#finish(code);
  }

  #finish(code) {
    if (this.#ended) return;
    this.#channel?.send({ type: "bye" });
    if (this.#session) api.leave(this.#session.token);
    this.#stop();
    this.#handlers.state("ended", code);
  }

  #stop() {
    this.#ended = true;
    clearInterval(this.#ticker);
    this.#drop();
    for (const track of this.#microphone?.getTracks() ?? []) track.stop();
  }

  #drop() {
    const connection = this.#connection;
    this.#connection = this.#channel = this.#sender = this.#receiver = null;
    connection?.close();
  }
}
