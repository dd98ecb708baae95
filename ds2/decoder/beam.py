"""Prefix beam search over CTC log-probabilities, with an n-gram language model (Deep Speech 2, section 3.8):

    Q(y) = log p_ctc(y | x) + lm_weight * log p_lm(y) + word_bonus * words(y)

A prefix is a string of labels without blanks; its probability is the sum over all alignments that collapse to it. A
stream is the state of a search, which the kernels of search.py advance; a whole utterance is one step of a stream.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ds2.decoder import nbest, prefixes, scoring
from ds2.decoder.config import MOST, BeamConfig
from ds2.decoder.hypothesis import Hypothesis, float_array, frame_counts, without_last_words
from ds2.decoder.lexicon import Lexicon, check_word_numbers
from ds2.decoder.prefixes import Beam
from ds2.decoder.reads import EVERY, Reading
from ds2.decoder.search import search_frames
from ds2.decoder.search_space import SearchSpace, make_tables
from ds2.decoder.texts import Alphabet, TextHypothesis
from ds2.lm.ngram import NGram
from ds2.lm.orders import END, UNKNOWN
from ds2.utils.devices import cpu_threads
from ds2.utils.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    Array = Tensor | np.ndarray
PARALLEL_FRAMES = 1000  # about 2 ms of work, enough to pay for starting threads


@dataclass
class BeamStream:
    """The state of the search of one utterance."""

    beam: Beam
    ended: bool = False

    @property
    def count(self) -> int:
        """The number of prefixes in the beam."""
        return int(self.beam.counters["entries"][0])


class BeamDecoder:
    """Searches with one configuration, lexicon and language model, offline or frame by frame.

    Without a lexicon a language model is over tokens, such as Mandarin characters; with one it is over its words.
    """

    def __init__(
        self,
        config: BeamConfig | None = None,
        lexicon: Lexicon | None = None,
        lm: NGram | None = None,
        lm_words: "np.ndarray | None" = None,
        labels: "np.ndarray | None" = None,
    ):
        """Makes the tables of the search.

        Args:
            lm_words: the language model's number for each word of the lexicon or, without a lexicon, for each token;
                -1 for a token that the language model does not count, such as the space.
            labels: (V,) of which label of `biphones` each output is a copy, for `step`.

        Raises:
            ValueError: a closed search has no lexicon; a language model has no `lm_words`, or `lm_words` has no model.
        """
        self.config = config = config or BeamConfig()
        self.space = SearchSpace(config, lexicon, lm, lm_words, labels)
        self.alphabet: Alphabet | None = None
        if config.closed and lexicon is None:
            raise ValueError("a closed search needs a lexicon")
        if (lm is None) != (lm_words is None):
            raise ValueError("lm and lm_words come together")
        self.prefers = lexicon is not None and lexicon.prefers
        self.hot = lexicon if lexicon is not None and lexicon.has_hot else None
        self.lm = lm
        self.lm_start = lm.start if lm is not None else 0
        self.sentence_end = -1 if lm is None else lm.index.get(END, lm.index.get(UNKNOWN, -1))
        self.tables = make_tables(self.space)
        if lm is not None:
            check_word_numbers(self.tables.numbers, len(lm.words), lexicon)

    @classmethod
    def from_tokens(
        cls,
        tokens: Sequence[str],
        lm: "str | Path | NGram | None" = None,
        hot: Mapping[str, float] | Sequence[str] = (),
        config: BeamConfig | None = None,
    ) -> "BeamDecoder":
        """A decoder for `decode` and `nbest`, which return text.

        Args:
            tokens: the model's outputs, in their order; the blank is "", the space between words " " or "|".
            lm: a language model over words or over tokens: ARPA, plain or gzipped, or the compiled form.
            hot: words and phrases to prefer, or these with the nats by which each of their words is preferred.

        Raises:
            InputError: the language model cannot be read.
            ParameterError: the tokens hold no blank, or they cannot spell a word.
        """
        alphabet = Alphabet(tokens)
        model = lm if isinstance(lm, NGram) or lm is None else NGram.load(lm)
        lexicon, numbers = alphabet.lexicon_for(model, hot)
        decoder = cls(config, lexicon, model, numbers)
        decoder.alphabet = alphabet
        return decoder

    def decode(self, log_probs: "Array", lengths: "Array | None" = None) -> str | list[str]:
        """(T, V) log-probabilities -> the text; (B, T, V), with (B,) frames if they differ -> B texts.

        Raises:
            InputError: the log-probabilities hold NaN or +inf.
            ValueError: the decoder was not made by `from_tokens`, or the shapes do not fit.
        """
        found = self.nbest(log_probs if log_probs.ndim == 3 else log_probs[None], lengths)
        texts = [hypotheses[0].text for hypotheses in found]
        return texts if log_probs.ndim == 3 else texts[0]

    def nbest(self, log_probs: "Array", lengths: "Array | None" = None) -> list[list[TextHypothesis]]:
        """(B, T, V) log-probabilities, (B,) frames -> the `config.nbest` best hypotheses of each utterance, with the
        frames of their words. Raises the errors of `decode`."""
        if self.alphabet is None:
            raise ValueError("this decoder knows no tokens; make it by BeamDecoder.from_tokens")
        rows = float_array(log_probs)
        if rows.ndim != 3 or rows.shape[2] != len(self.alphabet.tokens):
            raise ValueError(f"log_probs: expected (B, T, {len(self.alphabet.tokens)}), got {tuple(rows.shape)}")
        lengths = np.full(len(rows), rows.shape[1]) if lengths is None else lengths
        return [list(map(self.alphabet.hypothesis, found)) for found in self(rows[..., self.alphabet.order], lengths)]

    def with_nbest(self, nbest: int) -> "BeamDecoder":
        """The same search, with at least so many hypotheses of each utterance."""
        config = replace(self.config, nbest=max(self.config.nbest, nbest))
        return BeamDecoder(*self.space._replace(config=config))

    def without_hot(self) -> "BeamDecoder":
        """The same search, in which no word is preferred or avoided."""
        lexicon = self.space.lexicon
        return self if lexicon is None else BeamDecoder(*self.space._replace(lexicon=lexicon.without_hot()))

    def begin(self) -> BeamStream:
        """The search before the first frame."""
        return BeamStream(prefixes.begin(self.lm_start))

    def step(
        self,
        streams: list[BeamStream],
        log_probs: "Sequence[Array]",
        biphones: "Sequence[Array] | None" = None,
        number: int = 0,
    ) -> None:
        """Advances each stream by its (T, V) log-probabilities; T may differ between streams.

        `biphones`: of each stream (T, K, K) nats, [a, b]: what an output that is a copy of label b loses after one that
        is a copy of a. The beginning counts as label 0. `number`: of the first stream, for errors.

        Raises:
            InputError: the log-probabilities hold NaN or +inf.
            ValueError: a stream has ended.
        """
        if any(stream.ended for stream in streams):
            raise ValueError("the stream has ended; begin another")
        pairs = zip(streams, log_probs, strict=True)
        frames = [self._frames(rows, index) for index, (_, rows) in enumerate(pairs, number)]
        self._advance_all(streams, frames, biphones)

    def finish(self, stream: BeamStream) -> list[Hypothesis]:
        """The n-best hypotheses if the utterance ends here, best first; the stream accepts no more frames."""
        return list(islice(self.hypotheses(stream), self.config.nbest)) or [Hypothesis(score=-math.inf)]

    def hypotheses(self, stream: BeamStream, reading: Reading = EVERY) -> Iterator[Hypothesis]:
        """Like `finish`, all hypotheses one by one: what the beam holds and what recombination took out of it."""
        stream.ended = True
        found = self._hypotheses(stream, scoring.final_gains(stream.beam, self.tables, self.sentence_end), reading)
        return found if self.hot is None else self._boosted(found, self.hot)

    def _boosted(self, found: Iterable[Hypothesis], hot: Lexicon) -> Iterator[Hypothesis]:
        known = dict[tuple[int, ...], int]()
        return (replace(each, hot=self.prefers, boosts=hot.boosts_of(each.tokens, known)) for each in found)

    def partial(self, stream: BeamStream) -> Hypothesis:
        """The best hypothesis so far; the utterance may continue."""
        return next(self._hypotheses(stream, np.zeros(stream.count), EVERY), Hypothesis(score=-math.inf))

    def stable(self, stream: BeamStream) -> int:
        """The number of first tokens that all prefixes of the beam share: no later frame can change them."""
        strings = [prefixes.labels(stream.beam, place).tolist() for place in range(stream.count)]
        low, high = min(strings, default=()), max(strings, default=())
        return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))

    def lookups(self, stream: BeamStream) -> int:
        """The number of queries to the language model."""
        return int(stream.beam.counters["lookups"][0])

    def __call__(self, log_probs: "Array", lengths: "Array") -> list[list[Hypothesis]]:
        """(B, T, V) log-probabilities, (B,) frames -> for each utterance its n-best hypotheses, best first.

        Raises:
            InputError: an utterance has NaN or +inf among its log-probabilities; frames beyond its length do not count.
            ValueError: the lengths do not fit.
        """
        counts = frame_counts(log_probs, lengths)
        rows = enumerate(zip(log_probs, counts, strict=True))
        utterances = [self._frames(row[:count], index) for index, (row, count) in rows]
        streams = [self.begin() for _ in utterances]
        self._advance_all(streams, utterances)
        return [self.finish(stream) for stream in streams]

    def _frames(self, rows: "Array", index: int) -> np.ndarray:
        """(T, V) log-probabilities in float32 or float64."""
        settings = self.tables.settings[0]
        most = len(self.tables.numbers) if settings["lm_kind"] == scoring.TOKENS else MOST
        if rows.ndim != 2 or not max(0, settings["space"]) < rows.shape[1] <= most:
            raise ValueError(f"log_probs: expected frames of the decoder's outputs, got the shape {tuple(rows.shape)}")
        frames = float_array(rows)
        if frames.size and not frames.max() < math.inf:  # false for NaN too
            raise InputError(f"utterance {index}: log_probs hold NaN or +inf; check the model and its input")
        return np.ascontiguousarray(frames)

    def _advance_all(
        self, streams: list[BeamStream], frames: list[np.ndarray], biphones: "Sequence[Array] | None" = None
    ) -> None:
        """Advances the streams in several threads if there is enough work; the kernels release the GIL."""
        threads = min(cpu_threads(), len(streams))
        pairs: Sequence[Array | None] = biphones or [None] * len(streams)
        if threads < 2 or sum(map(len, frames)) < PARALLEL_FRAMES:
            list(map(self._advance, streams, frames, pairs))
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._advance, streams, frames, pairs))

    def _advance(self, stream: BeamStream, frames: np.ndarray, biphones: "Array | None") -> None:
        pairs = None if biphones is None else np.ascontiguousarray(biphones, np.float32)
        stream.beam = search_frames(stream.beam, frames, self.tables, pairs)

    def _hypotheses(self, stream: BeamStream, gains: np.ndarray, reading: Reading) -> Iterator[Hypothesis]:
        # The kernels divide by the best prefix in every frame; the scale brings the probabilities back.
        entries, scale = stream.beam.entries[: stream.count], stream.beam.counters["scale"][0]
        with np.errstate(divide="ignore"):
            totals = np.log(entries["by_blank"] + entries["by_label"]) + scale
        scores = totals + gains
        if np.isfinite(scores).any():
            return nbest.hypotheses(stream.beam, scores, entries["gains"] + gains, reading)
        # No word may end here: the whole words before it are better than nothing.
        found = nbest.hypotheses(stream.beam, totals, entries["gains"], reading)
        return without_last_words(found, self.tables.settings[0]["space"]) if self.config.closed else found
