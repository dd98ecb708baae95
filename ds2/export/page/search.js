// Prefix beam search over log-probabilities, by the formulas of ds2/decoder/README.md ("Scoring"), as
// ds2/decoder/search.py has them, but without the times of labels.
import { Scorer } from "./scoring.js";
import { Tree } from "./tree.js";

const BLANK = 0;
const ROOT = -1; // symbol of the empty prefix
const NONE = -1;
const TIDY = 50_000; // nodes above which those that no entry refers to are dropped

// Prefixes of the beam: numbers in arrays side by side.
class Entries {
  constructor(size) {
    for (const name of ["node", "lm", "lexicon", "lmAfter"]) this[name] = new Int32Array(size);
    for (const name of ["byBlank", "byLabel", "gains", "gainAfter"]) this[name] = new Float64Array(size);
  }

  copy(i, other, j) {
    for (const name in this) this[name][i] = other[name][j];
  }
}

export class BeamSearch {
  constructor(tables) {
    this.scorer = new Scorer(tables);
    const { columns, letters, spellings, space, beam_width, score_threshold } = tables;
    const { cumulative_probability, max_symbols, blank_skip, recombine, labels } = tables;
    Object.assign(this, { columns, letters, spellings, space, beam_width, score_threshold });
    this.between = letters.includes(" ") ? " " : ""; // nothing between words of one Chinese character
    Object.assign(this, { cumulative_probability, max_symbols, blank_skip, recombine, labels });
    const outputs = columns.length;
    const room = beam_width * (Math.min(max_symbols, outputs) + 1); // candidates of a frame
    this.entries = new Entries(beam_width);
    this.later = new Entries(beam_width);
    this.count = 1; // entries
    for (const name of ["entry", "label", "lm", "lexicon"]) this[`new_${name}`] = new Int32Array(room);
    for (const name of ["chance", "gains"]) this[`new_${name}`] = new Float64Array(room);
    for (const name of ["stayBlank", "stayLabel"]) this[name] = new Float64Array(beam_width);
    for (const name of ["eldest", "younger"]) this[name] = new Int32Array(beam_width);
    this.scores = new Float64Array(beam_width + room);
    this.kept = new Int32Array(beam_width);
    this.frame = new Float64Array(outputs);
    this.chances = new Float64Array(outputs); // of the labels to try; 0 of all others, and between frames
    this.active = new Int32Array(outputs).fill(NONE); // entry of the child by each symbol
    this.shares = null; // [a * width + b]: share of label b's probability that it has after label a
    this.width = 0;
    this.number = 0; // frames so far
    this.tree = new Tree();
    this.entries.lm[0] = tables.lm_start;
    this.entries.byBlank[0] = 1;
    this.entries.gainAfter[0] = NaN;
  }

  // The model's outputs of frames first to last - 1: log-probabilities of tokens, of phones, and the scores of biphones
  // if there are any.
  step({ tokens, phones, biphones, frames }, first, last) {
    const size = tokens.length / frames;
    const others = phones ? phones.length / frames : 0;
    const pairs = biphones ? biphones.length / frames : 0;
    this.width = Math.sqrt(pairs);
    for (let t = first; t < last; t++) {
      this.columns.forEach((column, k) => {
        this.frame[k] = column < size ? tokens[t * size + column] : phones[t * others + column - size];
      });
      this.shares = pairs ? biphones.subarray(t * pairs, (t + 1) * pairs).map(Math.exp) : null;
      this.advance();
    }
  }

  // The share of a symbol's probability that it has after the symbol `before`; the beginning counts as the space.
  share(before, symbol) {
    if (!this.shares) return 1;
    return this.shares[(before === ROOT ? 0 : this.labels[before] * this.width) + this.labels[symbol]];
  }

  advance() {
    const chosen = this.choose();
    const floor = Math.exp(-this.score_threshold);
    const best = this.stayAll();
    const added = this.extendAll(chosen, best * floor);
    this.keepAll(this.select(added, floor));
    for (const symbol of chosen) this.chances[symbol] = 0;
    if (this.space >= 0) this.chances[this.space] = 0;
    this.number++;
  }

  // The labels to try, the most probable first, without the space: the fewest that reach the cumulative probability.
  choose() {
    const { frame, chances, space } = this;
    if (this.blank_skip !== null && Math.exp(frame[BLANK]) >= this.blank_skip) return [];
    if (space >= 0) chances[space] = Math.exp(frame[space]);
    const all = this.cumulative_probability >= 1;
    const least = all ? -Infinity : Math.log((1 - this.cumulative_probability) / frame.length);
    const likely = [];
    for (let symbol = 1; symbol < frame.length; symbol++) if (frame[symbol] > least) likely.push(symbol);
    likely.sort((one, other) => frame[other] - frame[one] || one - other);
    const chosen = [];
    let reached = 0;
    let tried = 0;
    let blankWaits = true;
    for (const symbol of likely) {
      if (blankWaits && frame[BLANK] >= frame[symbol]) {
        reached += Math.exp(frame[BLANK]);
        tried++;
        blankWaits = false;
      }
      if (tried >= this.max_symbols || (!all && reached >= this.cumulative_probability)) break;
      const chance = Math.exp(frame[symbol]);
      reached += chance;
      tried++;
      if (symbol === space) continue;
      chances[symbol] = chance;
      chosen.push(symbol);
    }
    return chosen;
  }

  // Probabilities of the entries that stay as they are; which are children of which. Returns the best.
  stayAll() {
    const { entries, stayBlank, stayLabel, eldest, younger } = this;
    const { parent, symbol, entry, seen } = this.tree;
    const blank = Math.exp(this.frame[BLANK]);
    let best = 0;
    for (let i = 0; i < this.count; i++) {
      const node = entries.node[i];
      eldest[i] = younger[i] = NONE;
      stayBlank[i] = (entries.byBlank[i] + entries.byLabel[i]) * blank;
      stayLabel[i] = 0;
      if (symbol[node] !== ROOT) {
        stayLabel[i] = entries.byLabel[i] * this.chances[symbol[node]] * this.share(symbol[parent[node]], symbol[node]);
      }
      best = Math.max(best, stayBlank[i] + stayLabel[i]);
      entry[node] = i;
      seen[node] = this.number;
    }
    for (let j = 0; j < this.count; j++) {
      const above = parent[entries.node[j]];
      if (above === NONE || seen[above] !== this.number) continue;
      const i = entry[above];
      younger[j] = eldest[i];
      eldest[i] = j;
    }
    return best;
  }

  // Each entry with one more label: added to the entry that it equals, or a candidate. Returns their number.
  extendAll(chosen, least) {
    const { entries, stayLabel, eldest, younger, active, chances, space } = this;
    const { symbol } = this.tree;
    let added = 0;
    for (let i = 0; i < this.count; i++) {
      const last = symbol[entries.node[i]];
      const byBlank = entries.byBlank[i];
      const both = byBlank + entries.byLabel[i];
      for (let j = eldest[i]; j !== NONE; j = younger[j]) {
        const label = symbol[entries.node[j]];
        active[label] = j;
        const chance = (label === last ? byBlank : both) * chances[label] * this.share(last, label);
        if (chance > 0) stayLabel[j] += chance * Math.exp(entries.gains[j] - entries.gains[i]);
      }
      const growth = Math.exp(this.scorer.largestGain(entries, i));
      // Most nodes of a closed lexicon have fewer children than labels are tried in a frame.
      const following = this.scorer.following(entries, i, chosen);
      for (const label of following) {
        if (chances[label] === 0 || active[label] !== NONE) continue;
        if (following === chosen && both * growth * chances[label] < least) break; // all others are less probable
        const chance = (label === last ? byBlank : both) * chances[label] * this.share(last, label);
        if (chance * growth >= least) added += this.add(added, i, label, chance, least);
      }
      if (space >= 0 && active[space] === NONE) {
        const chance = (space === last ? byBlank : both) * chances[space] * this.share(last, space);
        if (!this.scorer.cannotEnd(entries, i, chance, least)) added += this.add(added, i, space, chance, least);
      }
      for (let j = eldest[i]; j !== NONE; j = younger[j]) active[symbol[entries.node[j]]] = NONE;
    }
    return added;
  }

  // Makes entry i with one more label a candidate, if it is probable enough; returns how many it added.
  add(place, i, label, chance, least) {
    if (chance <= 0) return 0;
    const gain = this.scorer.extend(this.entries, i, label);
    if (gain !== 0) chance *= Math.exp(gain);
    if (chance < least || chance <= 0) return 0;
    this.new_entry[place] = i;
    this.new_label[place] = label;
    this.new_lm[place] = this.scorer.state;
    this.new_lexicon[place] = this.scorer.node;
    this.new_chance[place] = chance;
    this.new_gains[place] = this.entries.gains[i] + gain;
    return 1;
  }

  // Sets the scores of the worse ones among entries and candidates that continue alike to 0: ds2/decoder/recombination.py.
  recombineAlike(total, least) {
    const { scores, count, entries, tree } = this;
    const best = new Map();
    for (let number = 0; number < total; number++) {
      if (scores[number] <= 0 || scores[number] < least) continue;
      const k = number - count;
      const kind =
        k < 0
          ? `${entries.lm[number]},${entries.lexicon[number]},${tree.symbol[entries.node[number]]}`
          : `${this.new_lm[k]},${this.new_lexicon[k]},${this.new_label[k]}`;
      const rival = best.get(kind);
      if (rival !== undefined && scores[number] <= scores[rival]) {
        scores[number] = 0;
      } else {
        if (rival !== undefined) scores[rival] = 0;
        best.set(kind, number);
      }
    }
  }

  // The best entries and candidates, at most beam_width: how many, in `kept`, and the score of the best.
  select(added, floor) {
    const { scores, count, kept, beam_width } = this;
    const total = count + added;
    let top = 0;
    for (let number = 0; number < total; number++) {
      scores[number] = number < count ? this.stayBlank[number] + this.stayLabel[number] : this.new_chance[number - count];
      top = Math.max(top, scores[number]);
    }
    if (top <= 0) return { left: 0, top };
    let least = top * floor;
    if (this.recombine) this.recombineAlike(total, least);
    let equal = beam_width; // of those with the lowest score that may be kept
    const over = scores.subarray(0, total).filter((score) => score >= least);
    if (over.length > beam_width) {
      over.sort();
      least = over[over.length - beam_width];
      for (const score of over) if (score > least) equal--;
    }
    let left = 0;
    for (let number = 0; number < total && left < beam_width; number++) {
      if (scores[number] > least || (scores[number] === least && least > 0 && equal > 0)) {
        if (scores[number] === least) equal--;
        kept[left++] = number;
      }
    }
    return { left, top };
  }

  // The entries of the next frame, scaled by the best.
  keepAll({ left, top }) {
    const { later, entries, count } = this;
    for (let place = 0; place < left; place++) {
      const number = this.kept[place];
      const i = number - count;
      if (i < 0) {
        later.copy(place, entries, number);
        later.byBlank[place] = this.stayBlank[number] / top;
        later.byLabel[place] = this.stayLabel[number] / top;
        continue;
      }
      later.node[place] = this.tree.under(entries.node[this.new_entry[i]], this.new_label[i]);
      later.lm[place] = this.new_lm[i];
      later.lexicon[place] = this.new_lexicon[i];
      later.byBlank[place] = 0;
      later.byLabel[place] = this.new_chance[i] / top;
      later.gains[place] = this.new_gains[i];
      later.gainAfter[place] = NaN;
    }
    this.entries = later;
    this.later = entries;
    this.count = left;
    if (this.tree.count > TIDY) this.tree.tidy(this.entries.node, left);
  }

  // The text so far; after the last frame with the gain of the last word and of the sentence's end.
  text(last) {
    const { byBlank, byLabel, node } = this.entries;
    const chances = Array.from({ length: this.count }, (_, i) => Math.log(byBlank[i] + byLabel[i]));
    const ended = chances.map((chance, i) => (last ? chance + this.scorer.atEnd(this.entries, i) : chance));
    const broken = !ended.some(Number.isFinite); // no word may end here: the whole words before it stay
    const scores = broken ? chances : ended;
    let best = 0;
    scores.forEach((score, i) => (best = score > scores[best] ? i : best));
    if (!this.count) return "";
    const labels = this.tree.path(node[best]);
    const isCut = broken && this.scorer.closed;
    return this.spelt(isCut ? labels.slice(0, Math.max(0, labels.lastIndexOf(this.space))) : labels, last || isCut);
  }

  // Labels as text: letters, or phones whose words have spellings. Where the last word has not ended, it counts if no
  // longer one that begins like it is as frequent.
  spelt(labels, ended) {
    if (!this.spellings) return labels.map((label) => this.letters[label]).join("").split(/\s+/).filter(Boolean).join(" ");
    const words = [];
    let node = 0;
    for (const [place, label] of [...labels, this.space].entries()) {
      if (label !== this.space) node = this.scorer.below(node, label);
      else {
        const word = node > 0 ? this.scorer.words[node] : NONE;
        const open = place === labels.length && !ended && this.between && this.scorer.hopesForLonger(node);
        if (word !== NONE && !open) words.push(this.spellings[word]); // not the last one, where it is incomplete
        node = 0;
      }
    }
    return words.join(this.between);
  }
}
