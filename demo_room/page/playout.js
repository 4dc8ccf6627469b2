// How much of each stretch of Venus's voice this device has played, for the LiveKit line.
//
// A message announces each stretch just before its sound.  The stretch's start, on the RTP clock of what is being
// played, is where the first sound after the announcement is heard; from then on that clock counts.  The clock goes on
// through silence, so that a start which was found late (a voice that fades in) is made up for soon after the end.

const AUDIBLE = 0.0003;
const LINGER_MS = 800;
const REPORT_MS = 200;
const TYPICAL_DELAY_MS = 120;
const RTP_PER_MS = 48;
const JUMP_MS = 10000;

export class Playout {
  #stretch = null;
  #start = null;
  #announcedAt = 0;
  #waitsForDip = false;
  #rtp = null;
  #soundedAt = -Infinity;
  #reportedAt = -Infinity;
  #reported = -1;
  #delay = TYPICAL_DELAY_MS;

  announce(stretch, now) {
    this.#stretch = stretch;
    this.#start = null;
    this.#announcedAt = now;
    this.#reported = -1;
    // The end of the stretch before may still be playing.
    this.#waitsForDip = now - this.#soundedAt < REPORT_MS;
  }

  // Another track, another clock.
  restart() {
    this.#rtp = this.#start = null;
    this.#stretch = null;
  }

  // `rtp` is that of the packet being played (undefined before the first one), `loudness` its RMS where known.
  observe(now, rtp, loudness) {
    if (rtp !== undefined) {
      if (this.#rtp !== null && Math.abs((rtp - this.#rtp) | 0) > JUMP_MS * RTP_PER_MS) this.restart();
      this.#rtp = rtp;
    }
    const sounds = loudness > AUDIBLE;
    if (sounds) this.#soundedAt = now;
    if (this.#stretch === null || this.#start !== null || this.#rtp === null) return;
    const waited = now - this.#announcedAt;
    if (loudness === undefined || this.#waitsForDip) {
      if (loudness !== undefined && !sounds) this.#waitsForDip = false;
      else if (waited >= this.#delay) this.#start = this.#rtp;
    } else if (sounds) {
      this.#start = this.#rtp;
      this.#delay = waited;
    }
  }

  // What to tell the other end now, or null.  `latencyMs` is how long sound takes from here to the ear.
  report(now, latencyMs) {
    if (this.#start === null || now - this.#reportedAt < REPORT_MS || now - this.#soundedAt > LINGER_MS) return null;
    const played = Math.round(((this.#rtp - this.#start) | 0) / RTP_PER_MS - latencyMs);
    if (played <= Math.max(this.#reported, 0)) return null;
    this.#reportedAt = now;
    this.#reported = played;
    return { stretch: this.#stretch, played_ms: played };
  }
}
