// What the language model, the lexicon and bonuses give to a prefix with one more label: ds2/decoder/README.md,
// "Scoring", as ds2/decoder/scoring.py has it.
const UNKNOWN = 0; // number of <unk> in every language model
const ROOT = 0; // state of the language model without context, and the lexicon's first node
const OUTSIDE = -1; // node of a word that is not in the lexicon
const NONE = -1;
const STEP = 1 / 1024; // nats: the unit of a packed model's log-probabilities of single words
const TYPES = {
  I32: Int32Array,
  U32: Uint32Array,
  I16: Int16Array,
  U16: Uint16Array,
  U8: Uint8Array,
  F32: Float32Array,
  F64: Float64Array,
};

// A safetensors file: the length of a JSON header, the header, the arrays.
export function readTables(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tables = JSON.parse(header.__metadata__.search);
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    if (name !== "__metadata__") tables[name] = new TYPES[dtype](buffer, 8 + length + data_offsets[0], shape[0]);
  }
  return tables;
}

// The place of `label` in the sorted labels[low .. end - 1]; NONE if it is not there.
function findArc(labels, low, end, label) {
  for (let high = end; low < high; ) {
    const middle = (low + high) >> 1;
    if (labels[middle] < label) low = middle + 1;
    else high = middle;
  }
  return low < end && labels[low] === label ? low : NONE;
}

// Number `place` of those of so many bits each: ds2/lm/packed.py.
function read(packed, bits, place) {
  const at = place * bits;
  const word = Math.floor(at / 32);
  const shift = at % 32;
  const both = (packed[word] >>> shift) | (shift ? packed[word + 1] << (32 - shift) : 0);
  return (both << (32 - bits)) >>> (32 - bits);
}

// Methods leave further results in `state` (of the language model) and `node` (of the lexicon).
export class Scorer {
  constructor(tables) {
    Object.assign(this, tables);
    this.state = this.node = 0;
  }

  // Log-probability of a word; every word has an arc from the root, at its number.
  advance(state, word) {
    if (this.lm_marks) return this.advancePacked(state, word);
    let weight = 0;
    while (state !== ROOT) {
      const arc = findArc(this.lm_words, this.lm_first[state], this.lm_first[state + 1], word);
      if (arc !== NONE) return this.reached(weight, arc);
      weight += this.lm_backoffs[state];
      state = this.lm_shorter[state];
    }
    return this.reached(weight, word);
  }

  reached(weight, arc) {
    this.state = this.lm_next[arc];
    return this.lm_unit * (weight + this.lm_log_probs[arc]);
  }

  // The same for a packed model: the first arc gives the log-probability, the first mark the next state.
  advancePacked(state, word) {
    let weight = 0;
    let found = false;
    for (; state !== ROOT; state = read(this.lm_shorter, this.lm_state_bits, state)) {
      const arc = this.findPacked(state, word);
      if (arc !== NONE) {
        if (!found) weight += this.lm_levels[this.lm_log_probs[arc]];
        found = true;
        this.state = this.longer(arc + this.lm_singles.length);
        if (this.state !== ROOT) return weight;
      } else if (!found) weight += this.lm_backoff_levels[this.lm_backoffs[state]];
    }
    this.state = this.longer(word);
    return found ? weight : weight + STEP * this.lm_singles[word];
  }

  // The place of a state's arc for a word among those that are not the root's; NONE if there is none.
  findPacked(state, word) {
    const end = read(this.lm_first, this.lm_place_bits, state + 1) - this.lm_singles.length;
    let low = read(this.lm_first, this.lm_place_bits, state) - this.lm_singles.length;
    for (let high = end; low < high; ) {
      const middle = (low + high) >> 1;
      if (read(this.lm_words, this.lm_word_bits, middle) < word) low = middle + 1;
      else high = middle;
    }
    return low < end && read(this.lm_words, this.lm_word_bits, low) === word ? low : NONE;
  }

  // The state of the longer context that an arc leads to: the number of marks up to it; ROOT without one.
  longer(arc) {
    const block = 2 * Math.floor(arc / 32);
    let bits = this.lm_marks[block + 1] << (31 - (arc % 32));
    if (bits >= 0) return ROOT;
    let state = this.lm_marks[block];
    for (; bits; bits &= bits - 1) state++;
    return state;
  }

  // Gain of entry i with one more label; -Infinity where it is not allowed.
  extend(entries, i, symbol) {
    const lexicon = entries.lexicon[i];
    this.state = entries.lm[i];
    this.node = lexicon;
    if (this.kind === "tokens") {
      return this.numbers[symbol] === NONE ? 0 : this.lm_weight * this.advance(this.state, this.numbers[symbol]) + this.bonus;
    }
    if (!this.spells) return 0;
    if (symbol === this.space) {
      const gain = this.endWord(entries, i);
      this.state = entries.lmAfter[i];
      this.node = ROOT;
      return gain;
    }
    this.node = this.below(lexicon, symbol);
    if (this.isKnown(this.node)) {
      const gain = this.wholeWord(this.state, this.node);
      this.state = entries.lm[i];
      return gain - this.ahead[lexicon];
    }
    if (this.node !== OUTSIDE) return this.ahead[this.node] - this.ahead[lexicon];
    if (this.closed) return -Infinity;
    return this.unknown_letter + (lexicon === OUTSIDE ? 0 : this.unknown - this.ahead[lexicon]);
  }

  // The labels to try after entry i within a word: those of its node in a closed lexicon where they are fewer.
  following(entries, i, chosen) {
    if (this.kind === "tokens" || !this.spells || !this.closed) return chosen;
    const [first, past] = [this.first[entries.lexicon[i]], this.first[entries.lexicon[i] + 1]];
    return past - first < chosen.length ? this.tokens.subarray(first, past) : chosen;
  }

  // No label but the space can give entry i more than this.
  largestGain(entries, i) {
    if (this.eager) return Math.max(this.most, this.most_at_end - this.ahead[entries.lexicon[i]]);
    if (this.kind === "tokens" || !this.spells || this.closed) return this.most;
    const node = entries.lexicon[i];
    if (node === OUTSIDE) return this.unknown_letter;
    return Math.max(this.most, this.unknown_letter + this.unknown - this.ahead[node]);
  }

  // Gain if an entry's word ends here; computed once for each prefix.
  endWord(entries, i) {
    if (!Number.isNaN(entries.gainAfter[i])) return entries.gainAfter[i];
    const node = entries.lexicon[i];
    const word = node === OUTSIDE ? NONE : this.words[node];
    let gain = 0;
    this.state = entries.lm[i];
    if (word === NONE && this.closed) gain = -Infinity;
    else if (node !== ROOT || this.closed) {
      gain = this.wholeWord(this.state, node);
      if (this.isKnown(node)) gain = 0;
      else if (node !== OUTSIDE) gain -= this.ahead[node];
    }
    entries.gainAfter[i] = gain;
    entries.lmAfter[i] = this.state;
    return gain;
  }

  // Gain of the word that ends at a node in its context.
  wholeWord(state, node) {
    const word = node === OUTSIDE ? NONE : this.words[node];
    let gain = 0;
    if (this.kind === "words") gain = this.lm_weight * this.advance(state, word === NONE ? UNKNOWN : this.numbers[word]);
    gain += this.bonus;
    if (word !== NONE) gain += this.boosts[word];
    else if (node !== OUTSIDE) gain += this.unknown;
    return gain;
  }

  // Whether the word at a node is known with its last label: no longer one continues it.
  isKnown(node) {
    return this.eager && node > ROOT && this.first[node] === this.first[node + 1];
  }

  // Whether a space after an entry falls below `least` for any score of the language model.
  cannotEnd(entries, i, chance, least) {
    if (!Number.isNaN(entries.gainAfter[i])) return false;
    const node = entries.lexicon[i];
    if (this.isKnown(node)) return chance < least;
    return chance * Math.exp(this.most_at_end - (node === OUTSIDE ? 0 : this.ahead[node])) < least;
  }

  // Gain of an entry if the recording ends here.
  atEnd(entries, i) {
    let gain = 0;
    this.state = entries.lm[i];
    if (entries.lexicon[i] !== ROOT && this.space >= 0 && this.kind !== "tokens") {
      gain = this.endWord(entries, i);
      this.state = entries.lmAfter[i];
    }
    if (this.kind === "none" || this.sentence_end < 0 || gain === -Infinity) return gain;
    return gain + this.lm_weight * this.advance(this.state, this.sentence_end);
  }

  // Whether a longer word than that at a node of the lexicon is as frequent.
  hopesForLonger(node) {
    return this.children.subarray(this.first[node], this.first[node + 1]).some((each) => this.ahead[each] >= this.ahead[node]);
  }

  // The node of the lexicon after one more label.
  below(node, symbol) {
    if (node === OUTSIDE) return OUTSIDE;
    const arc = findArc(this.tokens, this.first[node], this.first[node + 1], symbol);
    return arc === NONE ? OUTSIDE : this.children[arc];
  }
}
