// Text of the best path: the most probable token of each frame, repeats merged, blanks dropped.
const BLANK = 0;

export class Greedy {
  found = "";
  previous = BLANK;

  constructor(tokens) {
    this.tokens = tokens;
  }

  // The log-probabilities of frames first to last - 1.
  step({ tokens: data }, first, last) {
    const size = this.tokens.length;
    for (let frame = first; frame < last; frame++) {
      let best = 0;
      for (let token = 1; token < size; token++) if (data[frame * size + token] > data[frame * size + best]) best = token;
      if (best !== this.previous && best !== BLANK) this.found += this.tokens[best];
      this.previous = best;
    }
  }

  text() {
    return this.found.split(/\s+/).filter(Boolean).join(" ");
  }
}
