// The model in onnxruntime-web: log-probabilities of a stream or of a whole recording, and their greedy text.
import * as ort from "./ort.wasm.bundle.min.mjs";

const CHUNK_SECONDS = 0.1; // of a live stream
const CORE_SECONDS = 20; // of a long recording that one pass of a model for whole utterances supplies
const CONTEXT_SECONDS = 5; // heard on each side of it, so that no word is cut
const UNENDED = 2n ** 40n; // frames: the length of a stream whose end is not known yet
const BLANK = 0;

ort.env.wasm.numThreads = 1; // more need headers of the web server that few set
ort.env.wasm.wasmPaths = { wasm: new URL("ort-wasm-simd-threaded.wasm", import.meta.url).href };

// model.json says what tools cannot read from the graph; `streaming`: whether the model can hear live.
export async function load() {
  const facts = await (await fetch("model.json")).json();
  const session = await ort.InferenceSession.create("model.onnx", { executionProviders: ["wasm"] });
  return { facts, begin: () => (facts.streaming ? new LiveStream(session, facts) : new Recording(session, facts)) };
}

// Text of the best path: the most probable token of each frame, repeats merged, blanks dropped.
class Greedy {
  text = "";
  last = BLANK;

  constructor(tokens) {
    this.tokens = tokens;
  }

  // The data of (frames, V) log-probabilities, of which the frames first to last - 1 count.
  step(data, first, last) {
    const size = this.tokens.length;
    for (let frame = first; frame < last; frame++) {
      let best = 0;
      for (let token = 1; token < size; token++) if (data[frame * size + token] > data[frame * size + best]) best = token;
      if (best !== this.last && best !== BLANK) this.text += this.tokens[best];
      this.last = best;
    }
  }

  toString() {
    return this.text.split(/\s+/).filter(Boolean).join(" ");
  }
}

// A stream of a forward-only model: its states go out of one step and into the next.
class LiveStream {
  waiting = new Float32Array(0); // samples from the frame at `position` on
  position = 0; // front-end frames
  received = 0; // samples

  constructor(session, facts) {
    this.session = session;
    this.facts = facts;
    this.greedy = new Greedy(facts.tokens);
    this.frames = Math.max(1, Math.round(CHUNK_SECONDS / facts.frame_seconds)) * facts.stride;
    this.states = {};
    for (const [name, { double, shape }] of Object.entries(facts.states)) {
      const size = shape.reduce((product, part) => product * part, 1);
      this.states[name] = double
        ? new ort.Tensor("float64", new Float64Array(size), [1, ...shape])
        : new ort.Tensor("float32", new Float32Array(size), [1, ...shape]);
    }
  }

  // The text after the next samples; after the last ones it is final.
  async push(samples, last) {
    const { hop, overlap, stride, delay } = this.facts;
    this.waiting = joined([this.waiting, samples]);
    this.received += samples.length;
    let length = UNENDED;
    let end = 0; // frame after which all log-probabilities are out
    if (last && this.received) {
      const frames = Math.max(1, Math.floor((this.received - overlap - hop) / hop) + 1);
      end = (Math.ceil(frames / stride) + delay) * stride;
      length = BigInt(frames);
      const chunks = Math.ceil((end - this.position) / this.frames);
      const missing = chunks * this.frames * hop + overlap - this.waiting.length;
      this.waiting = joined([this.waiting, new Float32Array(Math.max(0, missing))]);
    }
    const size = this.frames * hop + overlap;
    while (last ? this.position < end : this.waiting.length >= size) {
      await this.chunk(this.waiting.slice(0, size), length);
      this.waiting = this.waiting.slice(this.frames * hop);
    }
    return this.greedy.toString();
  }

  async chunk(samples, length) {
    const { stride, delay } = this.facts;
    const first = this.position / stride - delay;
    const found = await this.session.run({
      samples: new ort.Tensor("float32", samples, [1, samples.length]),
      positions: new ort.Tensor("int64", BigInt64Array.of(BigInt(this.position)), [1]),
      lengths: new ort.Tensor("int64", BigInt64Array.of(length), [1]),
      ...this.states,
    });
    for (const name in this.states) this.states[name] = found[`next_${name}`];
    const outputs = length === UNENDED ? Infinity : Math.ceil(Number(length) / stride);
    const rows = found.log_probs.dims[1];
    this.greedy.step(found.log_probs.data, Math.max(0, -first), Math.min(rows, outputs - first));
    this.position += this.frames;
  }
}

// A recording for a model that needs whole utterances: it is kept until its end, and heard in windows that overlap.
class Recording {
  parts = [];

  constructor(session, facts) {
    this.session = session;
    this.facts = facts;
  }

  async push(samples, last) {
    this.parts.push(samples);
    return last ? this.text(joined(this.parts)) : "";
  }

  async text(samples) {
    const { sample_rate, frame_seconds, tokens } = this.facts;
    const greedy = new Greedy(tokens);
    const frame = Math.round(frame_seconds * sample_rate); // samples
    const core = Math.floor(CORE_SECONDS / frame_seconds);
    const context = Math.floor(CONTEXT_SECONDS / frame_seconds);
    const total = Math.floor(samples.length / frame) + 1;
    for (let first = 0; first < total && samples.length; ) {
      const begin = Math.max(0, first - context);
      const last = total <= core + 2 * context || total - first - core < context ? total : first + core;
      const window = samples.slice(begin * frame, last === total ? undefined : (last + context) * frame);
      const found = await this.session.run({
        samples: new ort.Tensor("float32", window, [1, window.length]),
        lengths: new ort.Tensor("int64", BigInt64Array.of(BigInt(window.length)), [1]),
      });
      const rows = found.log_probs.dims[1];
      greedy.step(found.log_probs.data, first - begin, last === total ? rows : last - begin);
      first = last;
    }
    return greedy.toString();
  }
}

function joined(parts) {
  const whole = new Float32Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
