// The log-probabilities of one stream -> the texts of its segments, as ds2/recognition/live_segments.py finds them.
const BLANK = 0;
const SILENCE = 0.5; // a frame in which nothing spoken is more probable than this holds no speech
const PAUSE_SECONDS = 0.75; // without speech end a segment
const LONG_SEGMENT_SECONDS = 20; // after these a shorter pause is enough
const SHORT_PAUSE_SECONDS = 0.3;
const LONGEST_SILENCE_SECONDS = 30; // without speech; after it the search begins anew

export class LiveSegments {
  texts = []; // of the segments that have ended
  frames = 0;

  // `begin` gives the search of a segment; model.json has the rest.
  constructor(begin, { steps, frame_seconds, tokens }) {
    this.begin = begin;
    this.betweenLooks = steps.least_frames / steps.stride; // output frames
    this.delay = steps.delay;
    this.second = 1 / frame_seconds; // output frames
    this.space = tokens.indexOf(" "); // -1: the alphabet has none
    this.between = this.space < 0 ? "" : " ";
    this.beginSegment();
  }

  // The log-probabilities of frames first to last - 1.
  step(found, first, last) {
    while (first < last) {
      // A pause is looked for at the same frames however the sound was cut.
      const count = this.betweenLooks - ((this.frames + this.delay) % this.betweenLooks);
      const end = Math.min(last, first + count);
      this.search.step(found, first, end);
      this.findSpeech(found, first, end);
      this.frames += end - first;
      if (first + count === end && this.pauseEnds()) this.endSegment();
      first = end;
    }
  }

  // The text of all segments so far, of the present one once it holds speech; after the last frame it is final.
  text(last) {
    const present = last || this.firstSpoken !== null ? this.search.text(last) : "";
    return [...this.texts, present].filter(Boolean).join(this.between);
  }

  findSpeech({ tokens, frames }, first, last) {
    const size = tokens.length / frames;
    for (let row = first; row < last; row++) {
      // A space is no speech: a model may write it anywhere in the pause before a word.
      const space = this.space < 0 ? 0 : Math.exp(tokens[row * size + this.space]);
      if (Math.exp(tokens[row * size + BLANK]) + space >= SILENCE) continue;
      this.lastSpoken = this.frames + row - first;
      this.firstSpoken ??= this.lastSpoken;
    }
  }

  pauseEnds() {
    if (this.firstSpoken === null) return this.frames - this.first > LONGEST_SILENCE_SECONDS * this.second;
    const isLong = this.frames - this.firstSpoken > LONG_SEGMENT_SECONDS * this.second; // without silence before it
    const pause = isLong ? SHORT_PAUSE_SECONDS : PAUSE_SECONDS;
    return this.frames - 1 - this.lastSpoken >= pause * this.second;
  }

  endSegment() {
    this.texts.push(this.search.text(true));
    this.beginSegment();
  }

  beginSegment() {
    this.search = this.begin();
    this.first = this.frames;
    this.firstSpoken = this.lastSpoken = null;
  }
}
