// Collects samples into blocks and passes them to the page as 16-bit integers.
const BLOCK = 2048; // samples: 43 ms at 48 kHz

registerProcessor("blocks", class extends AudioWorkletProcessor {
  block = new Int16Array(BLOCK);
  filled = 0;

  process([input]) {
    if (!input.length) return true;
    for (let i = 0; i < input[0].length; i++) {
      let sample = 0;
      for (const channel of input) sample += channel[i] / input.length;
      this.block[this.filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.filled === BLOCK) {
        this.port.postMessage(this.block);
        this.filled = 0;
      }
    }
    return true;
  }
});
