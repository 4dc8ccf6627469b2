// The line to the server itself: an offer, an answer, and the data channel "events".  See call.js.

import * as api from "./api.js";
import { DEGRADATION, ENCODING } from "./camera.js";
import { EventChannel } from "./channel.js";

const ACK_MS = 200;
const CANDIDATES_MS = 2000;
const OPEN_MS = 10000;
const RTP_HZ = 48000;

const later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class WebRtcLine {
  #session;
  #handlers;
  #resume = "";
  #connection = null;
  #channel = null;
  #sender = null;
  #camera = null;
  #receiver = null;
  #acked = { at: 0, rtp: -1 };
  #movedAt = 0;

  constructor(session, handlers) {
    this.#session = session;
    this.#handlers = handlers;
  }

  async connect(stream) {
    if (!window.RTCPeerConnection) throw new api.Refusal("unsupported", "");
    this.close(false);
    const connection = new RTCPeerConnection({ iceServers: this.#session.ice_servers, bundlePolicy: "max-bundle" });
    this.#connection = connection;
    const track = stream?.getAudioTracks()[0];
    const voice = track
      ? connection.addTransceiver(track, { direction: "sendrecv", streams: [stream] })
      : connection.addTransceiver("audio", { direction: "recvonly" });
    this.#sender = track ? voice.sender : null;
    this.#receiver = voice.receiver;
    // Agreed on now, so that the camera needs no agreement later.
    this.#camera = this.#session.can_see
      ? connection.addTransceiver("video", { direction: "sendonly", sendEncodings: [ENCODING] }).sender
      : null;
    connection.addEventListener("track", (event) => {
      this.#handlers.remote(event.streams[0] ?? new MediaStream([event.track]));
    });
    const raw = connection.createDataChannel("events", { ordered: true });
    const opened = new Promise((resolve) => raw.addEventListener("open", resolve, { once: true }));
    const channel = new EventChannel(raw, (message) => {
      if (connection === this.#connection) this.#handlers.message(message);
    });

    await connection.setLocalDescription();
    await this.#gathered(connection);
    const { type, sdp } = connection.localDescription;
    const answer = await api.offer({ token: this.#session.token, type, sdp, resume: this.#resume });
    this.#resume = answer.resume;
    await connection.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    if (this.#camera) await keepSize(this.#camera);
    const open = await Promise.race([opened.then(() => true), later(OPEN_MS).then(() => false)]);
    if (!open) throw new api.Refusal("no_media", "");
    if (connection !== this.#connection) return;

    channel.heardAt = this.#movedAt = performance.now();
    this.#acked = { at: 0, rtp: -1 };
    this.#channel = channel;
    raw.addEventListener("close", () => this.#broken(connection));
    connection.addEventListener("connectionstatechange", () => {
      if (connection.connectionState === "failed" || connection.connectionState === "closed") this.#broken(connection);
    });
  }

  send(message) {
    return this.#channel?.send(message) ?? false;
  }

  mute() {
    // A track that is not enabled sends silence.
  }

  async replace(track) {
    await this.#sender?.replaceTrack(track);
  }

  async show(track) {
    await this.#camera?.replaceTrack(track);
  }

  tick(now) {
    if (!this.#channel) return;
    this.#channel.tick(now);
    this.#acknowledge(now);
  }

  silentFor(now) {
    return this.#channel ? now - Math.max(this.#channel.heardAt, this.#movedAt) : 0;
  }

  close(goodbye) {
    if (goodbye) this.send({ type: "bye" });
    const connection = this.#connection;
    this.#connection = this.#channel = this.#sender = this.#camera = this.#receiver = null;
    connection?.close();
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

  async #gathered(connection) {
    if (connection.iceGatheringState === "complete") return;
    const complete = new Promise((resolve) => {
      connection.addEventListener("icegatheringstatechange", () => {
        if (connection.iceGatheringState === "complete") resolve();
      });
    });
    await Promise.race([complete, later(CANDIDATES_MS)]);
  }

  #broken(connection) {
    if (connection === this.#connection) this.#handlers.broken("lost");
  }
}

// On a slow line rather fewer pictures than smaller ones.
async function keepSize(sender) {
  try {
    await sender.setParameters({ ...sender.getParameters(), degradationPreference: DEGRADATION });
  } catch {
    // Not every browser can promise that.
  }
}
