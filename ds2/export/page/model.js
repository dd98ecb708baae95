// The model in onnxruntime-web: log-probabilities of a stream or of a whole recording, and their text.
import * as ort from "./ort.wasm.bundle.min.mjs";
import { Chunks, joined } from "./chunks.js";
import { Greedy } from "./greedy.js";
import { readTables } from "./scoring.js";
import { BeamSearch } from "./search.js";
import { LiveSegments } from "./segments.js";

const CORE_SECONDS = 20; // of a long recording that one pass of a model for whole utterances supplies
const CONTEXT_SECONDS = 5; // heard on each side of it, so that no word is cut

ort.env.wasm.numThreads = 1; // more need headers of the web server that few set
ort.env.wasm.wasmPaths = { wasm: new URL("ort-wasm-simd-threaded.wasm", import.meta.url).href };

// model.json says what tools cannot read from the graph; `streaming`: whether the model can hear live.
export async function load() {
  const facts = await (await fetch("model.json")).json();
  const session = await ort.InferenceSession.create("model.onnx", { executionProviders: ["wasm"] });
  const tables = facts.search ? readTables(await (await fetch(facts.search)).arrayBuffer()) : null;
  const begin = () => {
    const search = () => (tables ? new BeamSearch(tables) : new Greedy(facts.tokens));
    return facts.streaming
      ? new LiveStream(session, facts, new Timed(new LiveSegments(search, facts)))
      : new Recording(session, facts, new Timed(search()));
  };
  return { facts, begin };
}

// A decoder that adds up the seconds it takes.
class Timed {
  seconds = 0;

  constructor(decoder) {
    this.decoder = decoder;
  }

  // What a run of the model found: the frames first to last - 1 of it.
  step(found, first, last) {
    const begun = performance.now();
    const [, frames] = found.log_probs.dims;
    const ofPhones = { phones: found.phone_log_probs?.data, biphones: found.biphones?.data };
    this.decoder.step({ frames, tokens: found.log_probs.data, ...ofPhones }, first, last);
    this.seconds += (performance.now() - begun) / 1000;
  }

  text(last) {
    return this.decoder.text(last);
  }
}

// A stream of a model that hears live: its states go out of one step and into the next.
class LiveStream {
  constructor(session, facts, decoder) {
    this.session = session;
    this.decoder = decoder;
    this.chunks = new Chunks(facts.steps);
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
    for (const chunk of this.chunks.step(samples)) await this.hear(chunk);
    if (last) for (const chunk of this.chunks.finish()) await this.hear(chunk);
    return this.decoder.text(last);
  }

  async hear({ samples, position, length, first, last }) {
    const found = await this.session.run({
      samples: new ort.Tensor("float32", samples, [1, samples.length]),
      positions: new ort.Tensor("int64", BigInt64Array.of(BigInt(position)), [1]),
      lengths: new ort.Tensor("int64", BigInt64Array.of(BigInt(length)), [1]),
      ...this.states,
    });
    for (const name in this.states) this.states[name] = found[`next_${name}`];
    this.decoder.step(found, first, last);
  }
}

// A recording for a model that needs whole utterances: it is kept until its end, and heard in windows that overlap.
class Recording {
  parts = [];

  constructor(session, facts, decoder) {
    this.session = session;
    this.facts = facts;
    this.decoder = decoder;
  }

  async push(samples, last) {
    this.parts.push(samples);
    return last ? this.text(joined(this.parts)) : "";
  }

  async text(samples) {
    const { sample_rate, frame_seconds } = this.facts;
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
      this.decoder.step(found, first - begin, last === total ? rows : last - begin);
      first = last;
    }
    return this.decoder.text(true);
  }
}
