"""The search of the page, in Node, finds what the compiled decoder and the slow, plain search find."""

import dataclasses
from pathlib import Path

import numpy as np
from helpers.beam_reference import ReferenceSearch
from helpers.node import in_node, with_node

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.pronunciations import Pronunciations
from ds2.export.search import Decoder, search_file
from ds2.lm.ngram import NGram
from ds2.recognition.decoding import make_beam_decoder, search_phones
from ds2.text import BLANK_TOKEN, Tokenizer

pytestmark = with_node

ARPA = """\\data\\
ngram 1=7
ngram 2=4
ngram 3=1

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.5
-1.1\t</s>
-0.6\tab\t-0.3
-0.9\tba\t-0.2
-1.2\tcab\t-0.1
-0.8\ta\t-0.4

\\2-grams:
-0.3\t<s> ab\t-0.2
-0.2\tab ba\t-0.1
-0.7\tba </s>
-0.4\ta cab

\\3-grams:
-0.1\t<s> ab ba

\\end\\
"""
TOKENS = Tokenizer([BLANK_TOKEN, " ", "a", "b", "c"])
UNSPACED = Tokenizer([BLANK_TOKEN, "d", "a", "b", "c"])
PLAIN = 8  # cases of each decoder that the plain search, which takes long, searches too
PHONES = {"ab": [(2, 3)], "ba": [(3, 2)], "cab": [(2, 3), (4, 2)], "a": [(2,)]}
RUN = """
import { BeamSearch } from "PAGE/search.js";
import { readTables } from "PAGE/scoring.js";

const texts = [];
for (const { file, rows, phones, biphones, cut } of cases) {
  const data = readFileSync(file);
  const search = new BeamSearch(readTables(data.buffer.slice(data.byteOffset, data.byteOffset + data.length)));
  const scores = biphones && Float32Array.from(biphones.flat());
  const found = { tokens: rows.flat(), phones: phones?.flat(), biphones: scores, frames: rows.length };
  search.step(found, 0, cut);
  const partial = search.text(false);
  search.step(found, cut, rows.length);
  texts.push([partial, search.text(true)]);
}
console.log(JSON.stringify(texts));
"""


def decoders(lm: NGram) -> list[tuple[Decoder, Tokenizer, int]]:
    """Searches of all kinds, their tokens, and how many phones each hears."""
    narrow = BeamConfig(beam_width=3, cumulative_probability=0.9, max_symbols=2)
    characters = NGram.from_orders(["<unk>", "<s>", "</s>", "a", "b", "c"], _unigrams(6))
    lookahead = dataclasses.replace(BeamConfig(), lm_weight=1.3, word_bonus=-0.5, blank_skip=0.9, score_threshold=5.0)
    pronounced, recombined = Pronunciations.of(PHONES), BeamConfig(beam_width=9, recombine=True)
    spaced = [
        (BeamDecoder(BeamConfig(beam_width=8)), 0),
        (make_beam_decoder(TOKENS, BeamConfig(beam_width=16, closed=True), None, ["ab", "ba", "abc"]), 0),
        (make_beam_decoder(TOKENS, BeamConfig(), lm), 0),
        (make_beam_decoder(TOKENS, narrow, lm, boosts={"cc": 2.0}), 0),
        (make_beam_decoder(TOKENS, lookahead, lm.quantized()), 0),
        (make_beam_decoder(TOKENS, BeamConfig(), characters), 0),
        (make_beam_decoder(TOKENS, BeamConfig(beam_width=12, recombine=True), lm), 0),
        (search_phones(TOKENS, BeamConfig(beam_width=32), lm, pronounced), 5),
        (search_phones(TOKENS, recombined, lm, pronounced), 5),
        (make_beam_decoder(TOKENS, BeamConfig(beam_width=2, closed=True), None, ["ab", "abcb"]), 0),  # words break off
    ]
    eager = dataclasses.replace(recombined, eager=True, beam_width=4)
    unspaced = search_phones(UNSPACED, eager, lm, pronounced)
    return [*((decoder, TOKENS, phones) for decoder, phones in spaced), (unspaced, UNSPACED, 5)]


def _unigrams(count: int) -> list:
    from ds2.lm.orders import NGramOrder

    none = np.zeros(count, np.int64)
    return [NGramOrder(none, np.arange(count), np.log(np.full(count, 1 / count)), np.zeros(count))]


def test_texts_are_those_of_the_compiled_decoder(tmp_path: Path) -> None:
    """Of random frames, half-way as well: without a language model, with one over words, tokens and phones."""
    (tmp_path / "lm.arpa").write_text(ARPA)
    generator, cases, expected, plain = np.random.default_rng(0), [], [], {}
    for number, (decoder, tokens, phones) in enumerate(decoders(NGram.load(tmp_path / "lm.arpa"))):
        file = tmp_path / f"{number}.safetensors"
        file.write_bytes(search_file(decoder, tokens))
        reference = ReferenceSearch(decoder) if isinstance(decoder, BeamDecoder) else None
        for case in range(25):
            rows = [_frames(generator, size) for size in (len(TOKENS), phones) if size]
            biphones = np.zeros((len(rows[0]), 0), np.float32)
            if phones and case % 2:
                biphones = -3 * generator.random((len(rows[0]), (phones - 1) ** 2), np.float32)
            cut = int(generator.integers(1, len(rows[0])))
            rows = [row[: len(rows[0])] for row in rows]
            cases.append({"file": str(file), "rows": rows[0].tolist(), "cut": cut})
            cases[-1]["phones"] = rows[1].tolist() if phones else None
            cases[-1]["biphones"] = biphones.tolist() if biphones.size else None
            expected.append(_texts(decoder, tokens, np.concatenate([*rows, biphones], axis=1), cut))
            if reference is not None and case < PLAIN:
                found = reference.best(rows[0][:cut], ended=False), reference.best(rows[0])
                plain[len(cases) - 1] = [_words(TOKENS.decode(best.tokens)) for best, *_ in found]
    texts = in_node(RUN, cases, tmp_path)
    assert texts == expected
    assert {number: texts[number] for number in plain} == plain
    assert len({text for _, text in expected}) > 60


def _frames(generator: np.random.Generator, size: int) -> np.ndarray:
    """(30, V) log-probabilities, some frames nearly certain."""
    logits = generator.standard_normal((30, size)) * generator.uniform(0.5, 5, (30, 1))
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)


def _texts(decoder: Decoder, tokens: Tokenizer, rows: np.ndarray, cut: int) -> list[str]:
    stream = decoder.begin()
    decoder.step([stream], [rows[:cut]])
    partial = decoder.partial(stream)
    decoder.step([stream], [rows[cut:]])
    return [_words(tokens.decode(found.tokens)) for found in (partial, decoder.finish(stream)[0])]


def _words(text: str) -> str:
    return " ".join(text.split())
