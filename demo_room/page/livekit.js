// The line through a room of a LiveKit server: one track each way, events as messages, commands as calls.  See call.js.

import * as api from "./api.js";
import { DEGRADATION, ENCODING } from "./camera.js";
import { Pieces } from "./pieces.js";
import { Playout } from "./playout.js";
import {
  ConnectionErrorReason,
  DisconnectReason,
  Room,
  RoomEvent,
  setLogLevel,
  Track,
} from "./vendor/livekit-client/livekit-client.esm.mjs";

const TOPIC = "venus.events";
const OPEN_MS = 10000;
const RESUME_MS = 5000;
const RETRY_MS = 500;
const REASON_MS = 1000;
const CAMERA = {
  source: Track.Source.Camera,
  simulcast: false,
  videoEncoding: ENCODING,
  degradationPreference: DEGRADATION,
};
const COMMANDS = { interrupt: "venus.interrupt", type: "venus.type", configure: "venus.configure" };
const CODES = {
  [ConnectionErrorReason.NotAllowed]: "livekit_token",
  [ConnectionErrorReason.InternalError]: "no_media",
};
const GONE = {
  [DisconnectReason.DUPLICATE_IDENTITY]: "connected",
  [DisconnectReason.PARTICIPANT_REMOVED]: "room_gone",
  [DisconnectReason.ROOM_DELETED]: "room_gone",
  [DisconnectReason.ROOM_CLOSED]: "room_gone",
};

setLogLevel("warn");

// Mends short breaks itself; longer ones are mended by a new connection.
const reconnectPolicy = { nextRetryDelayInMs: ({ elapsedMs }) => (elapsedMs > RESUME_MS ? null : RETRY_MS) };

export class LiveKitLine {
  #session;
  #handlers;
  #ticket;
  #room = null;
  #agent = "";
  #microphone = null;
  #camera = null;
  #shown = Promise.resolve();
  #receiver = null;
  #pieces = new Pieces();
  #playout = new Playout();
  #acknowledging = false;

  constructor(session, handlers) {
    this.#session = session;
    this.#handlers = handlers;
    this.#ticket = session.livekit;
  }

  async connect(stream) {
    if (!window.RTCPeerConnection) throw new api.Refusal("unsupported", "");
    this.close(false);
    // A ticket is good for one coming in, and not for long.
    const { url, token, agent } = this.#ticket ?? (await api.entrance(this.#session.token)).livekit;
    this.#ticket = null;
    const room = new Room({ reconnectPolicy, stopLocalTrackOnUnpublish: false });
    this.#room = room;
    this.#agent = agent;
    const heard = this.#listen(room);
    try {
      await room.connect(url, token);
      const track = stream?.getAudioTracks()[0];
      const published = track && room.localParticipant.publishTrack(track, { source: Track.Source.Microphone });
      await within(heard, OPEN_MS, "no_agent");
      this.#microphone = published ? (await within(published, OPEN_MS, "no_media")).track : null;
    } catch (error) {
      room.disconnect(false);
      throw error instanceof api.Refusal ? error : refusal(error);
    }
    if (room !== this.#room) return;
    const ours = (handler) => (argument) => room === this.#room && handler(argument);
    for (const event of [RoomEvent.SignalReconnecting, RoomEvent.Reconnecting]) room.on(event, ours(this.#handlers.wavering));
    room.on(RoomEvent.Reconnected, ours(this.#handlers.steady));
    room.on(RoomEvent.Disconnected, ours((reason) => this.#handlers.broken(GONE[reason] ?? "livekit_down")));
    room.on(RoomEvent.ParticipantDisconnected, ({ identity }) => {
      // Why may still be on its way.
      if (identity === agent) setTimeout(ours(() => this.#handlers.broken("lost")), REASON_MS);
    });
  }

  send({ type, ...payload }) {
    if (this.#room === null) return false;
    this.#call(COMMANDS[type], payload).catch((error) => {
      this.#handlers.message({ type: "trouble", code: "command", message: error.message, fatal: false });
    });
    return true;
  }

  mute(muted) {
    if (muted) this.#microphone?.mute();
    else this.#microphone?.unmute();
  }

  async replace(track) {
    await this.#microphone?.replaceTrack(track, { userProvidedTrack: true });
  }

  // One after the other: publishing takes a while, and what counts is the last.
  show(track) {
    this.#camera = track;
    const done = this.#shown.then(() => this.#present());
    this.#shown = done.catch(() => {});
    return done;
  }

  tick(now, loudness) {
    if (this.#receiver === null) return;
    this.#playout.observe(now, this.#receiver.getSynchronizationSources?.()[0]?.rtpTimestamp, loudness);
    if (this.#acknowledging) return;
    const report = this.#playout.report(now, this.#handlers.outputLatency() * 1000);
    if (report === null) return;
    this.#acknowledging = true;
    // One that was lost is made up for by the next.
    const done = () => { this.#acknowledging = false; };
    this.#call("venus.ack", report).then(done, done);
  }

  silentFor() {
    return 0; // the room notices by itself when nothing comes
  }

  close() {
    const room = this.#room;
    this.#room = this.#receiver = this.#microphone = null;
    this.#shown = Promise.resolve();
    room?.disconnect(false); // microphone and camera may be wanted in the next one
  }

  // Resolves when Venus's voice is there.
  #listen(room) {
    room.on(RoomEvent.DataReceived, (payload, participant, _kind, topic) => {
      if (room === this.#room && participant?.identity === this.#agent && topic === TOPIC) this.#receive(payload);
    });
    return new Promise((resolve) => {
      room.on(RoomEvent.TrackSubscribed, (track, _publication, participant) => {
        if (room !== this.#room || participant.identity !== this.#agent || track.kind !== Track.Kind.Audio) return;
        this.#receiver = track.receiver;
        this.#playout.restart();
        this.#handlers.remote(new MediaStream([track.mediaStreamTrack]));
        resolve();
      });
    });
  }

  async #present() {
    const room = this.#room;
    if (room === null) return;
    const us = room.localParticipant;
    const before = us.getTrackPublication(Track.Source.Camera)?.track;
    if (before?.mediaStreamTrack === this.#camera) return;
    if (before) await us.unpublishTrack(before, false);
    if (this.#camera !== null && room === this.#room) await us.publishTrack(this.#camera, CAMERA);
  }

  #receive(payload) {
    let message;
    try {
      message = this.#pieces.join(JSON.parse(new TextDecoder().decode(payload)));
    } catch {
      return;
    }
    if (message === null) return;
    if (message.type === "playout" && "stretch" in message) this.#playout.announce(message.stretch, performance.now());
    else this.#handlers.message(message);
  }

  #call(method, payload) {
    const destinationIdentity = this.#agent;
    return this.#room.localParticipant.performRpc({ destinationIdentity, method, payload: JSON.stringify(payload) });
  }
}

function within(promise, milliseconds, code) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new api.Refusal(code, "")), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function refusal(error) {
  if (error.reason === ConnectionErrorReason.NotAllowed && error.status === 404) return new api.Refusal("room_gone", "");
  return new api.Refusal(CODES[error.reason] ?? "livekit_down", error.message);
}
