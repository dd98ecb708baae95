"""Prefix beam search over CTC log-probabilities, with an n-gram language model (Deep Speech 2, section 3.8):

    Q(y) = log p_ctc(y | x) + lm_weight * log p_lm(y) + word_bonus * words(y)

A prefix is a label string without blanks; its probability is the sum over all alignments that collapse to it. The
frames are searched by the kernels of beam_kernels.py; a stream is a decoder's state that they move on, and searching
a whole utterance is the same thing in one go.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ds2.config import require
from ds2.decoder import beam_kernels as kernels
from ds2.decoder.hypothesis import Hypothesis, frame_counts
from ds2.decoder.lexicon import Lexicon
from ds2.decoder.ngram import END, UNKNOWN, NGram
from ds2.errors import InputError

BLOCK = 256  # frames between two tidyings of a stream's tree
PARALLEL_FRAMES = 1000  # some 2 ms of work, for which threads are worth starting
TIDY = 50_000  # nodes or runs from which on a tree is tidied


@dataclass(frozen=True)
class BeamConfig:
    """How widely to search, and how what is found is weighed."""

    beam_width: int = 100  # prefixes kept after each frame
    score_threshold: float = 8.0  # nats below the best at which a prefix is given up; inf: never
    cumulative_probability: float = 0.999  # a frame's symbols are tried, best first, until they reach this
    max_symbols: int = 40  # and no more than these; the blank and the space are always tried
    blank_skip: float = 1.0  # a frame whose blank is at least this probable adds no label; 1: look at every frame
    lm_weight: float = 0.7  # of the language model's natural log-probability
    word_bonus: float = 1.5  # nats for each word, or token of a token model
    unknown_score: float = -6.0  # nats for a word that the lexicon does not hold
    unknown_letter_score: float = -1.5  # and for each of its letters from where no word of the lexicon begins like it
    closed: bool = False  # only the lexicon's words are found
    best: int = 1  # hypotheses returned

    def __post_init__(self) -> None:
        if min(self.beam_width, self.max_symbols, self.best) < 1:
            raise ValueError("beam_width, max_symbols and best must be at least 1")
        for name in ("cumulative_probability", "blank_skip"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in (0, 1], got {getattr(self, name)}")
        weights = ("lm_weight", "word_bonus", "unknown_score", "unknown_letter_score")
        require(self, "a finite number", math.isfinite, *weights)
        if not self.score_threshold > 0:
            raise ValueError(f"score_threshold must be above 0, got {self.score_threshold}")


@dataclass
class BeamStream:
    """Where the search of one utterance stands."""

    state: tuple[Any, ...]
    ended: bool = False


class BeamDecoder:
    """Searches with one configuration, lexicon and language model; offline, or frame by frame.

    Without a lexicon a language model is over tokens, as of Mandarin characters; with one it is over its words.
    """

    def __init__(
        self,
        config: BeamConfig | None = None,
        lexicon: Lexicon | None = None,
        lm: NGram | None = None,
        lm_words: "np.ndarray | None" = None,
    ):
        """`lm_words`: the language model's number of each of the lexicon's words, or, without a lexicon, of each token;
        -1: a token that it does not count, as the space.

        Raises:
            ValueError: a closed search without a lexicon; a language model without `lm_words`, or the other way round.
        """
        self.config = config = config or BeamConfig()
        self.problem = (config, lexicon, lm, lm_words)
        if config.closed and lexicon is None:
            raise ValueError("a closed search needs a lexicon")
        if (lm is None) != (lm_words is None):
            raise ValueError("lm and lm_words come together")
        kind = kernels.NO_LM if lm is None else kernels.TOKENS if lexicon is None else kernels.WORDS
        self._lm_start = lm.start if lm is not None else 0
        self._sentence_end = -1 if lm is None else lm.index.get(END, lm.index.get(UNKNOWN, -1))
        numbers = np.zeros(0, np.int32) if lm_words is None else np.asarray(lm_words, np.int32)
        word_bonus, unknown, letter = 0.0, 0.0, 0.0
        if lm is not None:
            word_bonus, unknown, letter = config.word_bonus, config.unknown_score, config.unknown_letter_score
        arrays, boosts, space, most = NO_LEXICON, np.zeros(0), -1, max(0.0, word_bonus)
        if lexicon is not None:
            boosts, space = lexicon.boosts, lexicon.space
            gains = boosts if lm is None else boosts + config.lm_weight * lm.unit * lm.arrays[2][numbers]
            ahead = _look_ahead(lexicon.arrays, gains)
            arrays, most = (*lexicon.arrays, ahead), max(0.0, ahead.max())
        skip = config.blank_skip if config.blank_skip < 1 else math.inf
        at_end = max(0.0, word_bonus) + max(0.0, boosts.max(initial=0.0))
        whole = np.array([config.beam_width, config.max_symbols, space, int(config.closed), kind])
        real = np.array([
            config.cumulative_probability, config.score_threshold, config.lm_weight, word_bonus, unknown, letter,
            skip, most, at_end,
        ])  # fmt: skip
        self._tables = kernels.Tables(whole, real, lm.automaton if lm is not None else NO_LM, arrays, boosts, numbers)

    def begin(self) -> BeamStream:
        """The search before the first frame."""
        return BeamStream(kernels.begin(self._lm_start))

    def step(self, streams: list[BeamStream], log_probs: list[Tensor]) -> None:
        """Moves each stream on by its (T, V) log-probabilities, any number of frames of each.

        Raises:
            InputError: NaN or +inf.
            ValueError: a stream that has ended.
        """
        if any(stream.ended for stream in streams):
            raise ValueError("the stream has ended; begin another")
        frames = [_frames(rows, index) for index, (_, rows) in enumerate(zip(streams, log_probs, strict=True))]
        self._advance_all(streams, frames)

    def finish(self, stream: BeamStream) -> list[Hypothesis]:
        """The n-best hypotheses when the utterance ends here, best first; the stream takes no more."""
        stream.ended = True
        gains = kernels.final_gains(stream.state, self._tables, self._sentence_end)
        return self._hypotheses(stream, gains, self.config.best) or [Hypothesis(score=-math.inf)]

    def partial(self, stream: BeamStream) -> Hypothesis:
        """The best hypothesis so far; the utterance may go on."""
        gains = np.zeros(stream.state[5][kernels.ENTRIES])
        return next(iter(self._hypotheses(stream, gains, 1)), Hypothesis(score=-math.inf))

    def stable(self, stream: BeamStream) -> int:
        """How many tokens all prefixes of the beam share: no frame to come can change them."""
        strings = [self._tokens(stream, place) for place in range(int(stream.state[5][kernels.ENTRIES]))]
        if not strings:
            return 0
        low, high = min(strings), max(strings)
        return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))

    def lookups(self, stream: BeamStream) -> int:
        """How often the language model was asked."""
        return int(stream.state[5][kernels.LOOKUPS])

    def __call__(self, log_probs: Tensor, lengths: Tensor) -> list[list[Hypothesis]]:
        """(B, T, V) log-probabilities, (B,) frames -> for each utterance its n-best hypotheses, best first.

        Raises:
            InputError: NaN or +inf among an utterance's log-probabilities; what lies behind its length does not count.
            ValueError: lengths that do not fit.
        """
        counts = frame_counts(log_probs, lengths)
        rows = enumerate(zip(log_probs, counts, strict=True))
        utterances = [_frames(row[:count], index) for index, (row, count) in rows]
        streams = [self.begin() for _ in utterances]
        self._advance_all(streams, utterances)
        return [self.finish(stream) for stream in streams]

    def _advance_all(self, streams: list[BeamStream], frames: list[np.ndarray]) -> None:
        """Side by side on torch's number of threads, where there is enough to do; the kernels let go of the GIL."""
        threads = min(torch.get_num_threads(), len(streams))
        if threads < 2 or sum(map(len, frames)) < PARALLEL_FRAMES:
            for stream, rows in zip(streams, frames, strict=True):
                self._advance(stream, rows)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._advance, streams, frames))

    def _advance(self, stream: BeamStream, frames: np.ndarray) -> None:
        for start in range(0, len(frames), BLOCK):
            counters = stream.state[5]
            if max(counters[kernels.NODES], counters[kernels.RUNS]) > TIDY:
                stream.state = kernels.compact(stream.state)
            stream.state = kernels.decode(stream.state, frames[start : start + BLOCK], self._tables)

    def _hypotheses(self, stream: BeamStream, gains: np.ndarray, best: int) -> list[Hypothesis]:
        _, reals, _, _, _, counters, scale = stream.state
        count = int(counters[kernels.ENTRIES])
        with np.errstate(divide="ignore"):
            totals = np.log(reals[:count, kernels.BY_BLANK] + reals[:count, kernels.BY_LABEL]) + scale[0]
        scores = totals + gains
        if not np.isfinite(scores).any():  # no word may end here: better a broken word than nothing
            scores, gains = totals, np.zeros(count)
        order = [place for place in np.argsort(-scores, kind="stable") if scores[place] > -math.inf]
        return [
            self._hypothesis(stream, place, float(scores[place]), float(reals[place, kernels.GAINS] + gains[place]))
            for place in order[:best]
        ]

    def _tokens(self, stream: BeamStream, place: int) -> tuple[int, ...]:
        entries, _, nodes, *_ = stream.state
        return tuple(kernels.tokens(nodes, entries[place, kernels.NODE]).tolist())

    def _hypothesis(self, stream: BeamStream, place: int, score: float, gains: float) -> Hypothesis:
        starts, ends, peaks = kernels.alignment(stream.state, place)
        times = tuple(starts.tolist()), tuple(ends.tolist())
        return Hypothesis(self._tokens(stream, place), *times, tuple(np.exp(peaks).tolist()), score, gains)


NO_LM = (
    np.zeros(2, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32),
    np.zeros(1, np.float32), np.zeros(1, np.int32), 1.0,
)  # fmt: skip
NO_LEXICON = (
    np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.full(1, -1, np.int32), np.zeros(1)
)  # fmt: skip


def _look_ahead(trie: tuple[np.ndarray, ...], gains: np.ndarray) -> np.ndarray:
    """(N,) what the best single word at or below each node gains; nothing is hoped for at the root."""
    first, _, children, ends = trie
    ahead = np.where(ends >= 0, gains[ends] if len(gains) else -np.inf, -np.inf)
    for node in range(len(ends) - 1, -1, -1):  # children come after their parents
        below = children[first[node] : first[node + 1]]
        if len(below):
            ahead[node] = max(ahead[node], ahead[below].max())
    ahead[0] = 0.0
    return ahead


def _frames(rows: Tensor, index: int) -> np.ndarray:
    """(T, V) in float32 or float64."""
    rows = rows.detach().cpu()
    frames: np.ndarray = (rows if rows.dtype == torch.float64 else rows.float()).contiguous().numpy()
    if not (frames < np.inf).all():  # false for NaN too
        raise InputError(f"utterance {index}: log_probs hold NaN or +inf; check the model and its input")
    return frames
