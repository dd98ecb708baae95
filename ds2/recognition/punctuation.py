"""Punctuation and capitals for recognised words: a small network tags each word from the words around it.

words    it   was   late   said   john   where   is   he
tags     C    -     ,      -      C .    C       -    ?        C: capital; the mark follows the word
display  It   was   late,  said   John.  Where   is   he?

Embedded words -> convolutions, 7 words to each side -> an LSTM in both directions, any number of words -> scores. It is
computed without torch; `recipes/english/punctuation.py` trains it.
"""

import copy
import functools
import itertools
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from ds2.lm.neural import lstm_step
from ds2.model_record import Record
from ds2.utils.devices import one_thread_a_product
from ds2.utils.errors import InputError

MARKS = ("", ",", ".", "?")
STOPS = (2, 3)  # the marks that end a sentence
ENDINGS = 2000  # numbers for words beyond the list, by the hash of their last letters
ENDING_LETTERS = 3
DILATIONS = (1, 2, 4)  # words between the three that a convolution looks at
DIRECTIONS = ("", "_reverse")
EMBEDDING = "embedding.weight"
ACRONYMS = frozenset("usa uk eu tv bbc nasa fbi cia nato dna hiv usb dvd cd pc ceo".split())  # no other words
BLOCK, CONTEXT = 1000, 100  # words that are tagged together, and those around them
AT_ONCE = 16  # blocks: memory for any recording stays small


class Punctuator:
    """Words in, display forms out."""

    def __init__(self, words: Sequence[str], weights: Mapping[str, np.ndarray]):
        """`words`: the list, in the order of their numbers; `weights`: those of `shapes`.

        Raises:
            InputError: they do not fit each other.
        """
        self.index = {word: number for number, word in enumerate(words)}
        # Capitals wherever a word stands.
        self.forms: Mapping[str, str] = {word: word.upper() for word in ACRONYMS} | {"phd": "PhD"}
        self.weights = weights
        try:
            width, hidden = weights[EMBEDDING].shape[1], weights["lstm.weight_hh_l0"].shape[1]
            expected = shapes(len(words), width, len(weights["convolutions.0.bias"]), hidden)
        except (KeyError, IndexError, TypeError) as error:
            raise InputError("the bundle's punctuation is damaged; add it again") from error
        found = {name: values.shape for name, values in weights.items() if values.dtype.kind == "f"}
        if found != expected:
            raise InputError("the bundle's punctuation is damaged, or of a former version; add it again")

    @classmethod
    def from_bundle(cls, bundle: Record) -> "Punctuator | None":
        """The punctuator of a bundle, if it has one.

        Raises:
            InputError: it is damaged.
        """
        if bundle.punctuation is None:
            return None
        try:
            weights = {name: np.asarray(values) for name, values in bundle.punctuation.arrays.items()}
        except TypeError as error:  # a type that numpy lacks
            raise InputError("the bundle's punctuation is damaged; add it again") from error
        return cls(bundle.punctuation.words, weights)

    def with_forms(self, forms: Mapping[str, str]) -> "Punctuator":
        """The same, which writes some words, and some phrases where they stand whole, always with these capitals.

        Within a phrase it sets no mark; one without capitals may begin a sentence.
        """
        other = copy.copy(self)
        other.forms = {**self.forms, **forms}
        return other

    def scores(self, words: Sequence[str]) -> np.ndarray:
        """N words -> (N, MARKS + 1): log-odds of the mark after each, and of its capital."""
        starts = range(0, len(words), BLOCK)
        firsts = [max(0, start - CONTEXT) for start in starts]
        blocks = [words[first : start + BLOCK + CONTEXT] for first, start in zip(firsts, starts, strict=True)]
        groups = (blocks[number : number + AT_ONCE] for number in range(0, len(blocks), AT_ONCE))
        with one_thread_a_product():  # the steps' are small: two threads mostly wait for each other
            found = zip(firsts, starts, itertools.chain.from_iterable(map(self._scores, groups)), strict=True)
            return np.concatenate([scores[start - first : start - first + BLOCK] for first, start, scores in found])

    @functools.cached_property
    def _network(self) -> dict[str, np.ndarray]:
        """All weights but the large table of words, in float32."""
        return {name: values.astype(np.float32) for name, values in self.weights.items() if name != EMBEDDING}

    def _scores(self, blocks: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """(N, MARKS + 1) of each block of words."""
        weights, found = self._network, list[np.ndarray]()
        for words in blocks:
            hidden = self.weights[EMBEDDING][[number_of(word, self.index) for word in words]].astype(np.float32)
            for number, dilation in enumerate(DILATIONS):
                layer = weights[f"convolutions.{number}.weight"], weights[f"convolutions.{number}.bias"]
                added = _convolved(hidden, *layer, dilation)
                hidden = hidden + added if number else added
            found.append(hidden)
        every = (np.hstack(each) for each in zip(found, *_both_ways(found, weights), strict=True))
        return [each @ weights["output.weight"].T + weights["output.bias"] for each in every]

    def tags(self, words: Sequence[str]) -> list[tuple[int, bool]]:
        """The mark after each word, and whether it has a capital; a sentence ends at the last one."""
        if not words:
            return []
        scores = self.scores(words)
        scores[-1, : STOPS[0]] = -np.inf
        return list(zip(scores[:, : len(MARKS)].argmax(1).tolist(), (scores[:, -1] > 0).tolist(), strict=True))

    def __call__(self, words: Sequence[str]) -> list[str]:
        """The display form of each word: with a capital where one is due, and with the mark after it."""
        shown, begins, (own, within) = [], True, self._own_forms(words)
        for place, (word, (mark, capital)) in enumerate(zip(words, self.tags(words), strict=True)):
            form = word[:1].upper() + word[1:] if capital or begins else word
            mark = 0 if place in within else mark
            shown.append(own.get(place, form) + MARKS[mark])
            begins = mark in STOPS
        return shown

    def _own_forms(self, words: Sequence[str]) -> tuple[dict[int, str], set[int]]:
        """The forms that words and phrases always have, by their places; the places after which a phrase goes on."""
        own = {place: self.forms[word] for place, word in enumerate(words) if word in self.forms}
        within = set[int]()
        for phrase, form in ((phrase.split(), form.split()) for phrase, form in self.forms.items() if " " in phrase):
            for place in range(len(words) - len(phrase) + 1):
                if list(words[place : place + len(phrase)]) == phrase:
                    own |= dict(enumerate(form, place)) if form != phrase else {}
                    within |= set(range(place, place + len(phrase) - 1))
        return own, within


def number_of(word: str, index: Mapping[str, int]) -> int:
    """The number of a word; words beyond the list share those of their endings."""
    ending = word[-ENDING_LETTERS:].encode()
    return index[word] if word in index else len(index) + zlib.crc32(ending) % ENDINGS


def shapes(words: int, width: int, channels: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The names of the weights, as torch has them, and their shapes."""
    found: dict[str, tuple[int, ...]] = {EMBEDDING: (words + ENDINGS, width)}
    for number in range(len(DILATIONS)):
        found[f"convolutions.{number}.weight"] = (channels, 3 * (channels if number else width))
        found[f"convolutions.{number}.bias"] = (channels,)
    for way in DIRECTIONS:
        found[f"lstm.weight_ih_l0{way}"] = (4 * hidden, channels)
        found[f"lstm.weight_hh_l0{way}"] = (4 * hidden, hidden)
        found[f"lstm.bias_ih_l0{way}"] = found[f"lstm.bias_hh_l0{way}"] = (4 * hidden,)
    return found | {"output.weight": (len(MARKS) + 1, channels + 2 * hidden), "output.bias": (len(MARKS) + 1,)}


def _convolved(hidden: np.ndarray, weight: np.ndarray, bias: np.ndarray, dilation: int) -> np.ndarray:
    """(N, C) -> (N, C'), from three words `dilation` apart; zeros beyond the ends."""
    count = len(hidden)
    padded = np.pad(hidden, ((dilation, dilation), (0, 0)))
    taps = np.hstack([padded[tap * dilation : tap * dilation + count] for tap in range(3)])
    return np.maximum(taps @ weight.T + bias, 0.0)


def _both_ways(blocks: Sequence[np.ndarray], weights: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
    """(N, C) of each block -> (N, H) of each: the outputs of the LSTM that goes forward, of the one that goes back."""
    ahead = _lstm_direction(blocks, weights, DIRECTIONS[0])
    back = _lstm_direction([each[::-1] for each in blocks], weights, DIRECTIONS[1])
    return [ahead, [each[::-1] for each in back]]


def _lstm_direction(blocks: Sequence[np.ndarray], weights: Mapping[str, np.ndarray], way: str) -> list[np.ndarray]:
    """(N, C) of each block -> (N, H) of each, all blocks step by step together; torch's order of the gates: input,
    forget, candidate, output."""
    bias = weights[f"lstm.bias_ih_l0{way}"] + weights[f"lstm.bias_hh_l0{way}"]
    recurrent = np.ascontiguousarray(weights[f"lstm.weight_hh_l0{way}"].T)
    count, size, longest = len(blocks), len(recurrent), max(map(len, blocks))
    terms = np.zeros((longest, count, 4 * size), np.float32)
    for number, inputs in enumerate(blocks):
        terms[: len(inputs), number] = inputs @ weights[f"lstm.weight_ih_l0{way}"].T + bias
    outputs = np.empty((longest, count, size), np.float32)
    cells = np.zeros(((longest + 1) * count, size), np.float32)  # those before the first step are 0
    state, every = np.zeros((count, size), np.float32), np.arange(count)
    for place, row in enumerate(terms):
        lstm_step(row, every, state @ recurrent, every + place * count, (place + 1) * count, cells, outputs[place])
        state = outputs[place]
    return [outputs[: len(inputs), number] for number, inputs in enumerate(blocks)]
