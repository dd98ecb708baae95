"""Search over phones: finds words by their pronunciations and distinguishes homophones.

The beam search distinguishes words by their tokens, which are the same for homophones. So every phone gets a few copies
with the same probability, and the copy that a word uses as its last phone says which of the homophones it is:

    to  T UW      two  T UW'      too  T UW''      tune  T UW N

Hypotheses come back as letters, on the frames of the word's phones: callers of the decoder never see a phone.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ds2.decoder.beam import BeamConfig, BeamDecoder, BeamStream
from ds2.decoder.hypothesis import Hypothesis, frame_counts
from ds2.decoder.lexicon import Lexicon
from ds2.decoder.ngram import NGram
from ds2.utils.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

Phones = tuple[int, ...]  # outputs of the model; 0 is the blank
SPACE = 1  # the output between words
FIRST = 2  # the first output that is a phone
BLOCK = 5000  # frames that are searched at once
COPIES = 6  # copies of each phone, itself included; rarer homophones beyond this number are not found


class PronouncingDecoder:
    """A `BeamDecoder` over phones that returns hypotheses in letters, offline or by begin / step / finish."""

    def __init__(
        self,
        config: BeamConfig,
        pronunciations: Mapping[str, Sequence[Phones]],
        lm: NGram,
        letters: Mapping[str, int],
        boosts: Mapping[str, float] | None = None,
    ):
        """Words without a pronunciation are not found.

        Args:
            pronunciations: the pronunciations of the words that can be found.
            letters: the token of each letter and of the space; the phones' outputs follow those of these tokens.
            boosts: nats for hot words.
        """
        boosts = boosts or {}
        phones = 1 + max(max(spoken) for every in pronunciations.values() for spoken in every)
        entries = homophones_apart(pronunciations, lm, phones)
        self.words = {spoken: word for word, spoken in entries}
        self.letters = letters
        # The column of a copy is that of its phone: [blank, space, phones, phones, ...]
        self.columns = len(letters) + np.array([0, SPACE] + COPIES * list(range(FIRST, phones)))
        lexicon = Lexicon((spoken for _, spoken in entries), SPACE, [boosts.get(word, 0.0) for word, _ in entries])
        numbers = np.array([lm.index.get(word, 0) for word, _ in entries], np.int32)
        self.beam = BeamDecoder(config, lexicon, lm, numbers)

    @property
    def config(self) -> BeamConfig:
        return self.beam.config

    def with_nbest(self, nbest: int) -> "PronouncingDecoder":
        """The same search, with at least so many hypotheses of each utterance."""
        other = copy.copy(self)
        other.beam = self.beam.with_nbest(nbest)
        return other

    def with_boosts(self, boosts: Mapping[str, float]) -> "PronouncingDecoder":
        """The same search with more hot words; those without a pronunciation are left out."""
        other, (config, lexicon, lm, numbers) = copy.copy(self), self.beam.problem
        assert lexicon is not None
        own = zip(self.words.values(), lexicon.boosts.tolist(), strict=True)
        nats = [boosts.get(word, boost) for word, boost in own]
        other.beam = BeamDecoder(config, lexicon.with_boosts(nats), lm, numbers)
        return other

    @property
    def lm(self) -> NGram | None:
        return self.beam.lm

    def __call__(self, log_probs: "Tensor | np.ndarray", lengths: "Tensor | np.ndarray") -> list[list[Hypothesis]]:
        """(B, T, V + P) log-probabilities of letters and phones, (B,) frames -> n-best hypotheses of each utterance.

        Block by block, because the copies of the phones would take 110 MB for an hour of sound.
        """
        counts = frame_counts(log_probs, lengths)
        streams = [self.begin() for _ in counts]
        for start in range(0, max(counts, default=0), BLOCK):
            rows = [row[start : min(count, start + BLOCK)] for row, count in zip(log_probs, counts, strict=True)]
            self.step(streams, rows)
        return [self.finish(stream) for stream in streams]

    def begin(self) -> BeamStream:
        return self.beam.begin()

    def step(self, streams: list[BeamStream], log_probs: "Sequence[Tensor | np.ndarray]") -> None:
        """Like `BeamDecoder.step`, with (T, V + P) log-probabilities."""
        self.beam.step(streams, [rows[:, self.columns] for rows in log_probs])

    def finish(self, stream: BeamStream) -> list[Hypothesis]:
        return [self._spelt(hypothesis) for hypothesis in self.beam.finish(stream)]

    def partial(self, stream: BeamStream) -> Hypothesis:
        """The best hypothesis so far, up to its last complete word."""
        return self._spelt(self.beam.partial(stream))

    def stable(self, stream: BeamStream) -> int:
        """How many of the first letters of `partial` all hypotheses share: those of whole words."""
        partial = self.beam.partial(stream)
        certain = partial.tokens[: self.beam.stable(stream)]
        whole = len(certain) - certain[::-1].index(SPACE) if SPACE in certain else 0
        return len(self._spelt(replace(partial, tokens=partial.tokens[:whole])).tokens)

    def _spelt(self, found: Hypothesis) -> Hypothesis:
        """The hypothesis in letters, without an incomplete word."""
        tokens: list[int] = []
        places: list[tuple[int, int]] = []
        for first, last in _words(found.tokens):
            word = self.words.get(found.tokens[first:last], "")
            if word and tokens:
                tokens.append(self.letters[" "])
                places.append((first - 1, first - 1))
            for number, letter in enumerate(word):
                tokens.append(self.letters[letter])
                share = (last - first) / len(word)
                start = first + math.floor(number * share)
                places.append((start, max(start, first + math.floor((number + 1) * share) - 1)))
        return Hypothesis(
            tuple(tokens),
            tuple(found.starts[start] for start, _ in places),
            tuple(found.ends[end] for _, end in places),
            tuple(found.confidences[start] for start, _ in places),
            found.score,
            found.gains,
        )


def homophones_apart(
    pronunciations: Mapping[str, Sequence[Phones]], lm: NGram, phones: int
) -> list[tuple[str, Phones]]:
    """Words and their phones, the last phone of each homophone as a different copy; the most frequent word first."""
    usual = lm.arrays[2][: len(lm.words)].tolist()  # the log-probability of every single word, at its number
    order = sorted(pronunciations, key=lambda word: usual[lm.index.get(word, 0)], reverse=True)
    taken: dict[Phones, int] = {}
    entries = []
    for word in order:
        for spoken in pronunciations[word]:
            copy = taken.get(spoken, 0)
            taken[spoken] = copy + 1
            if copy < COPIES:
                entries.append((word, (*spoken[:-1], spoken[-1] + copy * (phones - FIRST))))
    return entries


def packed(words: Sequence[str], pronunciations: Mapping[str, Sequence[Phones]]) -> tuple[np.ndarray, np.ndarray]:
    """(N,) int32 number of each pronunciation's word; uint8 phones of all pronunciations, with a blank after each."""
    pairs = [(number, spoken) for number, word in enumerate(words) for spoken in pronunciations.get(word, ())]
    phones = [phone for _, spoken in pairs for phone in (*spoken, 0)]
    return np.array([number for number, _ in pairs], np.int32), np.array(phones, np.uint8)


def unpacked(words: Sequence[str], numbers: np.ndarray, phones: np.ndarray) -> dict[str, list[Phones]]:
    """The pronunciations from `packed` arrays.

    Raises:
        InputError: the arrays do not fit each other or the words.
    """
    ends = np.flatnonzero(phones == 0)
    rows = all(array.ndim == 1 and array.dtype.kind in "iu" for array in (numbers, phones))
    if (
        not rows
        or len(ends) != len(numbers)
        or not (0 <= numbers.min(initial=0) <= numbers.max(initial=0) < len(words))
    ):
        raise InputError("the bundle's pronunciations do not fit its language model; copy or make it again")
    found: dict[str, list[Phones]] = {}
    every, start = phones.tolist(), 0
    for number, end in zip(numbers.tolist(), ends.tolist(), strict=True):
        found.setdefault(words[number], []).append(tuple(every[start:end]))
        start = end + 1
    return found


def _words(tokens: Sequence[int]) -> list[tuple[int, int]]:
    """(first, past the last) phone of each word."""
    ends = [place for place, token in enumerate(tokens) if token == SPACE] + [len(tokens)]
    starts = [0] + [end + 1 for end in ends[:-1]]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]
