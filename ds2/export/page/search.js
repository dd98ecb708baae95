// Prefix beam search over log-probabilities, as ds2/decoder/search.py defines it, without the times of labels.
import { Scorer } from "./scoring.js";

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
    Object.assign(this, tables.settings, { columns: tables.columns, letters: tables.letters, spellings: tables.spellings });
    const outputs = tables.columns.length;
    const most = this.beam_width * (Math.min(this.max_symbols, outputs) + 1); // candidates of a frame
    this.entries = new Entries(this.beam_width);
    this.later = new Entries(this.beam_width);
    this.count = 1; // entries
    for (const name of ["entry", "label", "lm", "lexicon"]) this[`new_${name}`] = new Int32Array(most);
    for (const name of ["chance", "gains"]) this[`new_${name}`] = new Float64Array(most);
    for (const name of ["stayBlank", "stayLabel"]) this[name] = new Float64Array(this.beam_width);
    for (const name of ["eldest", "younger"]) this[name] = new Int32Array(this.beam_width);
    this.scores = new Float64Array(this.beam_width + most);
    this.kept = new Int32Array(this.beam_width);
    this.frame = new Float64Array(outputs);
    this.chances = new Float64Array(outputs); // of the labels to try; 0 of all others, and between frames
    this.active = new Int32Array(outputs).fill(NONE); // entry of the child by each symbol
    this.number = 0; // frames so far
    this.startTree(2 * TIDY);
    this.addNode(NONE, ROOT);
    Object.assign(this.entries, {});
    this.entries.lm[0] = tables.lm_start;
    this.entries.byBlank[0] = 1;
    this.entries.gainAfter[0] = NaN;
  }

  // The model's outputs of frames first to last - 1: log-probabilities of tokens, and of phones if there are any.
  step({ tokens, phones, frames }, first, last) {
    const size = tokens.length / frames;
    const others = phones ? phones.length / frames : 0;
    for (let t = first; t < last; t++) {
      this.columns.forEach((column, k) => {
        this.frame[k] = column < size ? tokens[t * size + column] : phones[t * others + column - size];
      });
      this.advance();
    }
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
    const { entries, stayBlank, stayLabel, eldest, younger, parent, symbol } = this;
    const blank = Math.exp(this.frame[BLANK]);
    let best = 0;
    for (let i = 0; i < this.count; i++) {
      const node = entries.node[i];
      eldest[i] = younger[i] = NONE;
      stayBlank[i] = (entries.byBlank[i] + entries.byLabel[i]) * blank;
      stayLabel[i] = symbol[node] === ROOT ? 0 : entries.byLabel[i] * this.chances[symbol[node]];
      best = Math.max(best, stayBlank[i] + stayLabel[i]);
      this.entry[node] = i;
      this.seen[node] = this.number;
    }
    for (let j = 0; j < this.count; j++) {
      const above = parent[entries.node[j]];
      if (above === NONE || this.seen[above] !== this.number) continue;
      const i = this.entry[above];
      younger[j] = eldest[i];
      eldest[i] = j;
    }
    return best;
  }

  // Each entry with one more label: added to the entry that it equals, or a candidate. Returns their number.
  extendAll(chosen, least) {
    const { entries, stayLabel, eldest, younger, active, chances, space, symbol } = this;
    const free = Math.exp(this.most);
    let added = 0;
    for (let i = 0; i < this.count; i++) {
      const last = symbol[entries.node[i]];
      const byBlank = entries.byBlank[i];
      const both = byBlank + entries.byLabel[i];
      for (let j = eldest[i]; j !== NONE; j = younger[j]) {
        const label = symbol[entries.node[j]];
        active[label] = j;
        const chance = (label === last ? byBlank : both) * chances[label];
        if (chance > 0) stayLabel[j] += chance * Math.exp(entries.gains[j] - entries.gains[i]);
      }
      for (const label of chosen) {
        if (both * chances[label] * free < least) break; // all others are less probable
        if (active[label] === NONE) added += this.add(added, i, label, (label === last ? byBlank : both) * chances[label], least);
      }
      if (space >= 0 && active[space] === NONE) {
        const chance = (space === last ? byBlank : both) * chances[space];
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
    if (this.nodes + left > this.symbol.length) this.tidy();
    for (let place = 0; place < left; place++) {
      const number = this.kept[place];
      const i = number - count;
      if (i < 0) {
        later.copy(place, entries, number);
        later.byBlank[place] = this.stayBlank[number] / top;
        later.byLabel[place] = this.stayLabel[number] / top;
        continue;
      }
      later.node[place] = this.childOf(entries.node[this.new_entry[i]], this.new_label[i]);
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
  }
