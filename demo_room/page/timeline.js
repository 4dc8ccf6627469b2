// The conversation's timeline as data: what to draw where, for the last half minute.  timeline-view.js draws it.

export const WINDOW_MS = 30000;
const KEEP_MS = WINDOW_MS + 10000;
const SAMPLES_PER_MS = 24;
const TOUCHING_MS = 60;

export class Timeline {
  speech = [];
  decisions = [];
  overlaps = [];
  latencies = [];
  #utterances = new Map();
  #offset = null;
  #newest = 0;
  #seen = 0;

  // `now` is the page's clock in milliseconds.
  apply(event, now) {
    if (typeof event.at_ms !== "number") return;
    // Events are sent the moment they happen, so the smallest distance seen is the one between the two clocks.
    // It may grow by a thousandth of the time passed, since no two clocks run alike.
    const distance = now - event.at_ms;
    const grown = this.#offset === null ? distance : this.#offset + (now - this.#seen) * 0.001;
    this.#offset = Math.min(grown, distance);
    this.#seen = now;
    this.#newest = Math.max(this.#newest, event.at_ms);
    const handler = this[`on_${event.type.replaceAll(".", "_")}`];
    if (handler) handler.call(this, event);
    this.#forget();
  }

  // After a break the distance of the clocks is learnt anew.
  resync() {
    this.#offset = null;
  }

  mediaTime(now) {
    return this.#offset === null ? this.#newest : now - this.#offset;
  }

  get lastLatency() {
    return this.latencies.at(-1) ?? null;
  }

  on_user_speech({ phase, at_ms: at }) {
    if (phase === "started") this.speech.push({ from: at, to: null });
    else if (this.speech.length && this.speech.at(-1).to === null) this.speech.at(-1).to = at;
  }

  on_agent_decision({ decision, at_ms: at }) {
    this.decisions.push({ at, decision });
  }

  on_overlap({ phase, at_ms: at }) {
    this.overlaps.push({ at, phase });
  }

  on_latency({ at_ms: at, edge_ms: edge }) {
    this.latencies.push({ from: at - edge, to: at, edge });
  }

  on_agent_speech({ utterance_id: id, first_sample: first, samples, at_ms: at }) {
    const utterance = this.#utterance(id, at);
    utterance.queued = Math.max(utterance.queued, first + samples);
    utterance.touched = at;
  }

  on_playout({ utterance_id: id, state, first_sample: first, end_sample: end, at_ms: at }) {
    const utterance = this.#utterance(id, at);
    utterance.touched = at;
    if (state === "sent") {
      utterance.sent.push({ at, first, end });
      utterance.taken = Math.max(utterance.taken, end);
    } else if (state === "heard") {
      utterance.heard = Math.max(utterance.heard, end);
    } else if (state === "discarded") {
      utterance.discarded.push({ at, first, end });
    } else if (state === "queued") {
      // A hold took back what had been handed over but not played.
      utterance.sent = utterance.sent
        .map((piece) => ({ ...piece, end: Math.min(piece.end, first) }))
        .filter((piece) => piece.end > piece.first);
      utterance.taken = Math.min(utterance.taken, first);
    }
  }

  // Stretches of Venus's speech, each {from, to, state}, `state` being heard, sent, queued or discarded.
  blocks(mediaNow) {
    const blocks = [...this.#utterances.values()].flatMap((utterance) => blocksOf(utterance, mediaNow));
    const begins = [...this.#utterances.values()].map(({ sent }) => sent[0]?.at).filter((at) => at !== undefined);
    for (const block of blocks) {
      if (block.state !== "discarded") continue;
      // What was dropped has no time of its own; it gives way to what was said instead.
      block.to = Math.min(block.to, ...begins.filter((at) => at > block.from));
    }
    return joined(blocks);
  }

  #utterance(id, at) {
    if (!this.#utterances.has(id)) {
      this.#utterances.set(id, { queued: 0, taken: 0, heard: 0, sent: [], discarded: [], touched: at });
    }
    return this.#utterances.get(id);
  }

  #forget() {
    const oldest = this.#newest - KEEP_MS;
    while (this.speech.length && this.speech[0].to !== null && this.speech[0].to < oldest) this.speech.shift();
    while (this.decisions.length > 1 && this.decisions[1].at < oldest) this.decisions.shift();
    while (this.overlaps.length && this.overlaps[0].at < oldest) this.overlaps.shift();
    while (this.latencies.length > 1 && this.latencies[0].to < oldest) this.latencies.shift();
    for (const [id, utterance] of this.#utterances) if (utterance.touched < oldest) this.#utterances.delete(id);
  }
}

function blocksOf({ queued, taken, heard, sent, discarded }, mediaNow) {
  const isDropped = (sample) => discarded.some(({ first, end }) => sample >= first && sample < end);
  const edges = [heard, ...discarded.flatMap(({ first, end }) => [first, end])];
  const blocks = [];
  let free = mediaNow;
  for (const { at, first, end } of sent) {
    const cuts = [first, ...edges.filter((edge) => edge > first && edge < end).sort((a, b) => a - b), end];
    for (let index = 0; index + 1 < cuts.length; index += 1) {
      const [from, to] = [cuts[index], cuts[index + 1]];
      const state = to <= heard ? "heard" : isDropped(from) ? "discarded" : "sent";
      blocks.push({ from: at + (from - first) / SAMPLES_PER_MS, to: at + (to - first) / SAMPLES_PER_MS, state });
    }
    free = Math.max(free, at + (end - first) / SAMPLES_PER_MS);
  }
  for (const { at, first, end } of discarded) {
    const unsent = Math.max(first, taken);
    if (end > unsent) blocks.push({ from: at, to: at + (end - unsent) / SAMPLES_PER_MS, state: "discarded" });
  }
  if (queued > taken && !isDropped(taken)) {
    blocks.push({ from: free, to: free + (queued - taken) / SAMPLES_PER_MS, state: "queued" });
  }
  return blocks;
}

function joined(blocks) {
  const result = [];
  for (const block of blocks) {
    const last = result.at(-1);
    if (last && last.state === block.state && Math.abs(block.from - last.to) < TOUCHING_MS) last.to = block.to;
    else result.push(block);
  }
  return result;
}
