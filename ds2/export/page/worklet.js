// Collects samples into blocks and passes them to the page, the channels averaged.
const BLOCK = 1024; // samples: 128 ms at 8 kHz

registerProcessor("blocks", class extends AudioWorkletProcessor {
  block = new Float32Array(BLOCK);
  filled = 0;

  process([input]) {
    if (!input.length) return true;
    for (let i = 0; i < input[0].length; i++) {
      let sample = 0;
      for (const channel of input) sample += channel[i] / input.length;
      this.block[this.filled++] = sample;
      if (this.filled === BLOCK) {
        this.port.postMessage(this.block);
        this.filled = 0;
      }
    }
    return true;
  }
});
