// The sound of one stream -> the steps of a model, as ds2/recognition/chunks.py cuts it.
export const UNENDED = 2 ** 40; // front-end frames: the length of a stream whose end is not known yet

// `step` takes samples, `finish` ends the sound; both give the chunks that are ready, for each { samples; position, the
// front-end frames of the stream before it; length, those of the whole stream; first, last: the first and past the last
// row of its log-probabilities that lie within the stream }.
export class Chunks {
  waiting = new Float32Array(0); // samples from the frame at `position` on
  position = 0; // front-end frames that are cut
  received = 0; // samples

  constructor(steps) {
    this.steps = steps; // model.json has them
  }

  step(samples) {
    const { frames, long_frames } = this.steps;
    const chunks = [];
    this.waiting = joined([this.waiting, samples]);
    this.received += samples.length;
    while (this.waiting.length >= this.samples(frames)) {
      const isLong = this.waiting.length >= this.samples(long_frames);
      chunks.push(this.chunk(isLong ? long_frames : frames, UNENDED));
    }
    return chunks;
  }

  finish() {
    const { hop, overlap, stride, delay, frames, long_frames, least_frames } = this.steps;
    const chunks = [];
    const length = this.received ? Math.max(1, Math.floor((this.received - overlap) / hop)) : 0;
    // The log-probabilities lag behind, so that the last of them come after the last frame.
    const end = length ? (Math.ceil(length / stride) + delay) * stride : 0;
    while (this.position < end) {
      const needed = end - this.position;
      const whole = Math.ceil(needed / least_frames) * least_frames;
      const count = needed > frames ? long_frames : Math.min(frames, whole);
      const missing = Math.max(0, this.samples(count) - this.waiting.length);
      this.waiting = joined([this.waiting, new Float32Array(missing)]);
      chunks.push(this.chunk(count, length));
    }
    return chunks;
  }

  // How many samples a chunk of so many front-end frames has.
  samples(frames) {
    return frames * this.steps.hop + this.steps.overlap;
  }

  chunk(frames, length) {
    const { hop, stride, delay } = this.steps;
    const { position } = this;
    const before = position / stride - delay;
    const first = Math.max(0, -before);
    const last = Math.max(first, Math.min(frames / stride, Math.ceil(length / stride) - before));
    const chunk = { samples: this.waiting.slice(0, this.samples(frames)), position, length, first, last };
    this.waiting = this.waiting.slice(frames * hop);
    this.position += frames;
    return chunk;
  }
}

// One array of all the samples.
export function joined(parts) {
  const whole = new Float32Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
