// Collects samples into buffers and passes them to the page, the channels averaged.
const BUFFER = 1024; // samples: 128 ms at 8 kHz

registerProcessor("buffers", class extends AudioWorkletProcessor {
  buffer = new Float32Array(BUFFER);
  filled = 0;

  process([input]) {
    if (!input.length) return true;
    for (let i = 0; i < input[0].length; i++) {
      let sample = 0;
      for (const channel of input) sample += channel[i] / input.length;
      this.buffer[this.filled++] = sample;
      if (this.filled === BUFFER) {
        this.port.postMessage(this.buffer);
        this.filled = 0;
      }
    }
    return true;
  }
});
