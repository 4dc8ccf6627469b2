// Everything about sound that is not the connection: the meter on both voices and how long the device needs to play.

export class Sound {
  #context = null;
  #meter = null;
  #sources = [null, null];
  #onLoudness;

  constructor(onLoudness) {
    this.#onLoudness = onLoudness;
  }

  // Call it from a click, or the browser keeps the context asleep.
  async wake() {
    if (this.#context) {
      await this.#context.resume();
      return;
    }
    const Context = window.AudioContext ?? window.webkitAudioContext;
    if (!Context) return;
    const context = new Context({ latencyHint: "interactive" });
    this.#context = context;
    if (!context.audioWorklet) return;
    await context.audioWorklet.addModule("/page/meter.js");
    if (this.#context !== context) return;
    this.#meter = new AudioWorkletNode(context, "venus-meter", { numberOfInputs: 2, numberOfOutputs: 1 });
    this.#meter.port.onmessage = ({ data }) => this.#onLoudness(data);
    this.#meter.connect(context.destination);
  }

  get now() {
    return this.#context?.currentTime ?? 0;
  }

  get outputLatency() {
    const seconds = this.#context?.outputLatency ?? this.#context?.baseLatency ?? 0;
    return Number.isFinite(seconds) ? seconds : 0;
  }

  listenToMicrophone(stream) {
    this.#listen(0, stream);
  }

  listenToVenus(stream) {
    this.#listen(1, stream);
  }

  #listen(which, stream) {
    this.#sources[which]?.disconnect();
    this.#sources[which] = null;
    if (!this.#meter || !stream || stream.getAudioTracks().length === 0) return;
    const source = this.#context.createMediaStreamSource(stream);
    source.connect(this.#meter, 0, which);
    this.#sources[which] = source;
  }

  async sleep() {
    const context = this.#context;
    this.#context = this.#meter = null;
    this.#sources = [null, null];
    await context?.close();
  }
}
