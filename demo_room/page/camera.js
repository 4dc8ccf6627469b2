// The camera: the button that switches it on and off, and the user's own picture.

import { DeviceError, openDevice } from "./devices.js";

// Venus takes a picture a second; more than a few are of no use.
const FRAME_RATE = 10;
const WANTED = { width: { ideal: 640 }, height: { ideal: 480 }, frameRate: { ideal: FRAME_RATE } };

// How a line sends it: rather fewer pictures than smaller ones.
export const ENCODING = { maxFramerate: FRAME_RATE, maxBitrate: 500_000 };
export const DEGRADATION = "maintain-resolution";

export class CameraError extends DeviceError {
  constructor(code) {
    super(`camera_${code}`);
  }
}

function openCamera() {
  // Nothing is demanded of it, so one that does not fit is one that is not there.
  const makeError = (code) => new CameraError(code === "gone" ? "none" : code);
  return openDevice({ audio: false, video: WANTED }, makeError);
}

function stop(stream) {
  for (const track of stream.getTracks()) track.stop();
}

export class Camera {
  #parts;
  #handlers;
  #stream = null;
  #turn = 0;

  // Parts: button, icon, view (which holds the others), video, hide.  Handlers: show(track), with null when the camera
  // is off, and trouble(error).
  constructor(parts, handlers) {
    this.#parts = parts;
    this.#handlers = handlers;
    parts.button.addEventListener("click", () => (this.on ? this.off() : this.#switchOn()));
    parts.hide.addEventListener("click", () => {
      parts.view.hidden = true;
      parts.button.focus();
    });
  }

  get on() {
    return this.#stream !== null;
  }

  // Stops what is being opened, too.
  off() {
    this.#turn += 1;
    this.#parts.button.disabled = false;
    const stream = this.#stream;
    if (stream === null) return;
    this.#stream = null;
    this.#handlers.show(null);
    stop(stream);
    this.#present();
  }

  // Puts the words right, in the language of the page.
  label(t) {
    const { button, video, hide } = this.#parts;
    button.title = t(this.on ? "cameraOff" : "cameraOn");
    video.setAttribute("aria-label", t("selfView"));
    hide.title = t("hideSelfView");
    hide.setAttribute("aria-label", t("hideSelfView"));
  }

  async #switchOn() {
    this.#turn += 1;
    const turn = this.#turn;
    this.#parts.button.disabled = true;
    try {
      const stream = await openCamera();
      if (turn !== this.#turn) {
        stop(stream);
        return;
      }
      this.#stream = stream;
    } catch (error) {
      if (turn === this.#turn) this.#handlers.trouble(error);
      return;
    } finally {
      if (turn === this.#turn) this.#parts.button.disabled = false;
    }
    const [track] = this.#stream.getVideoTracks();
    track.addEventListener("ended", () => {
      if (turn !== this.#turn) return;
      this.off();
      this.#handlers.trouble(new CameraError("gone"));
    });
    this.#present();
    this.#handlers.trouble(null);
    this.#handlers.show(track);
  }

  #present() {
    const { button, icon, view, video } = this.#parts;
    button.setAttribute("aria-pressed", String(this.on));
    icon.setAttribute("href", `/page/icons.svg#${this.on ? "camera" : "camera-off"}`);
    view.hidden = !this.on;
    video.srcObject = this.#stream;
    if (!this.on) return;
    // A mirror for whoever looks into the camera; what a camera at the back sees is no mirror image.
    const { facingMode } = this.#stream.getVideoTracks()[0].getSettings();
    view.classList.toggle("mirrored", facingMode !== "environment");
    video.play().catch(() => {}); // it only shows what is sent anyway
  }
}
