// Collects samples into buffers and passes them to the page as 16-bit integers.
const BUFFER = 2048; // samples: 43 ms at 48 kHz

registerProcessor("buffers", class extends AudioWorkletProcessor {
  buffer = new Int16Array(BUFFER);
  filled = 0;

  process([input]) {
    if (!input.length) return true;
    for (let i = 0; i < input[0].length; i++) {
      let sample = 0;
      for (const channel of input) sample += channel[i] / input.length;
      this.buffer[this.filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.filled === BUFFER) {
        this.port.postMessage(this.buffer);
        this.filled = 0;
      }
    }
    return true;
  }
});
