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
  #awaited = null;

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
    if (waited <= 0.05 || waited >= LONGEST_S) return;
    const milliseconds = Math.round((waited + outputS) * 1000);
    if (this.#awaited === null || at > this.#awaited.until) {
      this.#measured = { at, milliseconds };
    } else {
      this.#awaited.show(milliseconds);
      this.#awaited = null;
    }
  }

  // The server has reported an answer at `now`: `show` gets what is measured for it.  Its first sound has been heard
  // already, or is still on its way: where everything is late, at the first answer above all, for seconds.
  expect(now, show) {
    const measured = this.#measured;
    this.#measured = null;
    this.#awaited = { until: now + PAIRED_WITHIN_S, show };
    if (measured !== null && now - measured.at <= PAIRED_WITHIN_S) show(measured.milliseconds);
  }
}
