// The listener's own latency: from the last sound of the microphone to the first sound of the answer, on one audio clock.

const VENUS_AUDIBLE = 0.004;
const QUIET_BEFORE_S = 0.3;
const LONGEST_S = 12;
const PAIRED_WITHIN_S = 4;

export class ListenerLatency {
  #noise = 0.004;
  #lastUser = null;
  #lastVenus = -Infinity;
  #measured = null;

  // `at` is in seconds; loudness is RMS in [0, 1]; `outputS` is how long sound still travels to the ear.
  push({ at, microphone, venus }, outputS = 0) {
    if (microphone > 0) {
      const speed = microphone < this.#noise ? 0.05 : 0.0008;
      this.#noise += speed * (microphone - this.#noise);
      if (microphone > Math.max(0.008, this.#noise * 3)) this.#lastUser = at;
    }
    if (venus <= VENUS_AUDIBLE) return;
    const begins = at - this.#lastVenus > QUIET_BEFORE_S;
    this.#lastVenus = at;
    if (!begins || this.#lastUser === null) return;
    const waited = at - this.#lastUser;
    if (waited > 0.05 && waited < LONGEST_S) this.#measured = { at, milliseconds: Math.round((waited + outputS) * 1000) };
  }

  // What was measured for the answer that the server has just reported, or null.
  take(now) {
    const measured = this.#measured;
    if (measured === null || now - measured.at > PAIRED_WITHIN_S) return null;
    this.#measured = null;
    return measured.milliseconds;
  }
}
