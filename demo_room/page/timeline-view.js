// Draws a Timeline on a canvas: four lanes, the present at four fifths of the width, what is queued to the right of it.

import { t } from "./i18n.js";
import { WINDOW_MS } from "./timeline.js";

const PRESENT = 0.82;
const LABEL_WIDTH = 64;
const AXIS = 22;
const NARROW_FONT = "10px system-ui, sans-serif";
const COLOURS = ["user", "heard", "sent", "queued", "discarded", "latency", "line", "text", "muted", "decide", "surface"];

export class TimelineView {
  #canvas;
  #context;
  #colours = {};

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
    this.refresh();
  }

  // Reads colours anew; call it when the theme changes.
  refresh() {
    const style = getComputedStyle(document.documentElement);
    for (const name of COLOURS) this.#colours[name] = style.getPropertyValue(`--t-${name}`).trim();
  }

  draw(timeline, now) {
    const { width, height } = this.#fit();
    const context = this.#context;
    const media = timeline.mediaTime(now);
    const left = width < 520 ? 0 : LABEL_WIDTH;
    const span = width - left;
    const view = {
      left,
      width,
      x: (at) => left + span * PRESENT + ((at - media) / WINDOW_MS) * span * PRESENT,
      from: media - WINDOW_MS,
      until: media + (WINDOW_MS * (1 - PRESENT)) / PRESENT,
    };
    const lane = (height - AXIS) / 4;
    // On a narrow canvas the names stand inside the lanes, and other words keep clear of them.
    const named = left === 0 ? this.#nameWidth("laneDecision") : 0;
    context.clearRect(0, 0, width, height);
    this.#grid(view, height, lane, media);
    this.#speech(timeline, view, lane * 0, lane, media);
    this.#decisions(timeline, view, lane * 1, lane, media, named);
    this.#venus(timeline, view, lane * 2, lane, media);
    this.#latency(timeline, view, lane * 3, lane);
    this.#present(view, height);
    this.#names(view, lane);
  }

  #fit() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (this.#canvas.width !== Math.round(width * ratio) || this.#canvas.height !== Math.round(height * ratio)) {
      this.#canvas.width = Math.round(width * ratio);
      this.#canvas.height = Math.round(height * ratio);
    }
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return { width, height };
  }

  #grid(view, height, lane, media) {
    const context = this.#context;
    context.strokeStyle = this.#colours.line;
    context.fillStyle = this.#colours.muted;
    context.lineWidth = 1;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    const step = view.width < 520 ? 10000 : 5000;
    for (let at = Math.ceil(Math.max(view.from, 0) / step) * step; at <= media; at += step) {
      const x = Math.round(view.x(at)) + 0.5;
      if (x < view.left + 12) continue;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - AXIS + 4);
      context.stroke();
      context.fillText(clock(at), x, height - 5);
    }
    for (let index = 1; index <= 4; index += 1) {
      const y = Math.round(lane * index) + 0.5;
      context.beginPath();
      context.moveTo(0, y);
      context.lineTo(view.width, y);
      context.stroke();
    }
  }

  #nameWidth(key) {
    this.#context.font = NARROW_FONT;
    return 8 + this.#context.measureText(t(key)).width;
  }

  #names(view, lane) {
    const context = this.#context;
    const names = [t("laneYou"), t("laneDecision"), t("laneVenus"), t("laneLatency")];
    context.textAlign = "left";
    context.font = "500 12px system-ui, sans-serif";
    context.textBaseline = "middle";
    names.forEach((name, index) => {
      if (view.left === 0) {
        context.font = NARROW_FONT;
        context.fillStyle = this.#colours.muted;
        context.fillText(name, 2, lane * index + 8);
      } else {
        context.fillStyle = this.#colours.surface;
        context.fillRect(0, lane * index + 1, view.left - 6, lane - 2);
        context.fillStyle = this.#colours.muted;
        context.fillText(name, 0, lane * (index + 0.5));
      }
    });
  }

  #speech(timeline, view, top, lane, media) {
    for (const { from, to } of timeline.speech) this.#block(view, from, to ?? media, top, lane, this.#colours.user);
  }

  #decisions(timeline, view, top, lane, media, named) {
    const { decisions } = timeline;
    decisions.forEach(({ at, decision }, index) => {
      const until = decisions[index + 1]?.at ?? media;
      if (until < view.from) return;
      const speaks = decision === "speak";
      const x = Math.max(view.x(at), view.left);
      const end = view.x(until);
      this.#context.globalAlpha = speaks ? 0.9 : 0.28;
      this.#bar(x, top + lane * 0.42, end - x, lane * 0.16, this.#colours.decide);
      this.#context.globalAlpha = 1;
      const from = Math.max(x, named);
      if (end - from > 44) this.#label(speaks ? t("speak") : t("listen"), from + 2, top + lane * 0.24, this.#colours.muted);
    });
    let free = view.width;
    for (const { at, phase } of [...timeline.overlaps].reverse()) {
      if (at < view.from || phase === "started" || phase === "ended") continue;
      const x = view.x(at);
      this.#bar(x - 1, top + lane * 0.2, 2, lane * 0.62, this.#colours.latency);
      const words = t(`overlap_${phase}`);
      const end = x + 10 + this.#context.measureText(words).width;
      if (end < free) this.#label(words, x + 4, top + lane * 0.78, this.#colours.text);
      free = x;
    }
  }

  #venus(timeline, view, top, lane, media) {
    for (const { from, to, state } of timeline.blocks(media)) {
      this.#block(view, from, Math.min(to, view.until), top, lane, this.#colours[state], state);
    }
  }

  #latency(timeline, view, top, lane) {
    const context = this.#context;
    for (const { from, to, edge } of timeline.latencies) {
      if (to < view.from) continue;
      const [x, end, y] = [view.x(from), view.x(to), top + lane * 0.5];
      context.strokeStyle = this.#colours.latency;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x, y - 6);
      context.lineTo(x, y + 6);
      context.moveTo(x, y);
      context.lineTo(end, y);
      context.moveTo(end, y - 6);
      context.lineTo(end, y + 6);
      context.stroke();
      this.#label(`${(edge / 1000).toFixed(2)} s`, end + 6, y, this.#colours.text);
    }
  }

  #present(view, height) {
    const context = this.#context;
    const x = Math.round(view.left + (view.width - view.left) * PRESENT) + 0.5;
    context.strokeStyle = this.#colours.text;
    context.globalAlpha = 0.45;
    context.setLineDash([2, 3]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height - AXIS);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  #block(view, from, to, top, lane, colour, state = "heard") {
    if (to < view.from) return;
    const x = Math.max(view.x(from), view.left);
    const width = Math.max(view.x(to) - x, 1.5);
    const [y, height] = [top + lane * 0.24, lane * 0.52];
    if (state === "queued") {
      this.#context.globalAlpha = 0.45;
      this.#bar(x, y, width, height, colour);
      this.#context.globalAlpha = 1;
    } else if (state === "discarded") this.#hatched(x, y, width, height, colour);
    else this.#bar(x, y, width, height, colour);
  }

  #bar(x, y, width, height, colour) {
    const context = this.#context;
    context.fillStyle = colour;
    context.beginPath();
    context.roundRect(x, y, width, height, Math.min(3, width / 2, height / 2));
    context.fill();
  }

  #hatched(x, y, width, height, colour) {
    const context = this.#context;
    context.save();
    context.beginPath();
    context.roundRect(x, y, width, height, Math.min(3, width / 2));
    context.clip();
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    for (let at = x - height; at < x + width; at += 5) {
      context.beginPath();
      context.moveTo(at, y + height);
      context.lineTo(at + height, y);
      context.stroke();
    }
    context.restore();
  }

  #label(text, x, y, colour) {
    const context = this.#context;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = colour;
    context.fillText(text, x, y);
  }
}

function clock(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
