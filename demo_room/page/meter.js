// Runs on the audio thread: loudness of the microphone (input 0) and of Venus (input 1) for every 10 ms, with its time.

class Meter extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = Math.round(sampleRate / 100);
    this.count = 0;
    this.sums = [0, 0];
    this.loud = [];
  }

  process(inputs) {
    const length = inputs[0]?.[0]?.length ?? inputs[1]?.[0]?.length ?? 128;
    for (let which = 0; which < 2; which += 1) {
      const samples = inputs[which]?.[0];
      if (samples) for (const sample of samples) this.sums[which] += sample * sample;
    }
    this.count += length;
    if (this.count >= this.block) {
      const [microphone, venus] = this.sums.map((sum) => Math.sqrt(sum / this.count));
      this.port.postMessage({ at: currentTime, microphone, venus });
      this.count = 0;
      this.sums = [0, 0];
    }
    return true;
  }
}

registerProcessor("venus-meter", Meter);
