"""Back-off n-gram language models, as automata in flat arrays that the decoder's kernels walk.

A state is a context, a node of a trie of words. Its arcs are the words that follow the context in the model, sorted:

    root --the--> [the] --cat--> [the cat] --sat--> next: [cat sat], the longest context that is known
                    |                |
                 shorter          shorter            a word without an arc here: add the state's back-off weight and
                    v                v               look again from the shorter context; the root knows every word
                  root             [cat]

Log-probabilities are natural logarithms or, if quantised, multiples of `STEP`. The file is one safetensors file, which
is mapped into memory, not read.
"""

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ds2.lm.arpa import is_arpa, read_arpa
from ds2.lm.checks import IMPOSSIBLE, check_arrays, check_words
from ds2.lm.levels import BEGIN, END, UNKNOWN, WORD_BITS, Level
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write
from ds2.utils.jit import inlined, without_references

ROOT = 0
FORMAT = "ds2-ngram-1"
STEP = 1 / 1024  # nats: the unit of quantised log-probabilities; 16 bits reach down to -32
ARRAYS = ("first", "words", "log_probs", "next", "backoffs", "shorter")  # names in a file, in NGram's order


class Automaton(NamedTuple):
    """The arrays that `advance` walks: S states, A arcs sorted by (state, word); the root has an arc for each word."""

    first: np.ndarray  # (S + 1,) place where the arcs of each state begin
    words: np.ndarray  # (A,)
    log_probs: np.ndarray  # (A,)
    next: np.ndarray  # (A,) states
    backoffs: np.ndarray  # (S,)
    shorter: np.ndarray  # (S,) states
    unit: float  # nats in one unit of log_probs and backoffs


class NGram:
    """A language model over words, or over characters as words.

    Attributes:
        words: the words in the order of their numbers, <unk> first.
        arrays: first (S + 1,), words (A,), log_probs (A,), next (A,), backoffs (S,), shorter (S,) for S states, A arcs.
        unit: nats in one unit of log_probs and backoffs.
        order: the length of the longest n-gram.
    """

    def __init__(self, words: Sequence[str], arrays: tuple[np.ndarray, ...], order: int):
        self.words = tuple(words)
        self.index = {word: number for number, word in enumerate(self.words)}
        self.arrays = arrays
        self.unit = STEP if arrays[2].dtype == np.int16 else 1.0
        self.order = order

    @classmethod
    def from_arrays(cls, words: Sequence[str], arrays: Sequence[np.ndarray], order: int) -> "NGram":
        """A model from arrays that are not trusted, from a file for example.

        Raises:
            ValueError: the arrays are not an automaton.
        """
        check_words(words, order)
        unit = STEP if arrays[2].dtype == np.int16 else 1.0
        check_arrays(arrays, len(words), order, unit)
        first, labels, log_probs, *rest = arrays
        if log_probs.min() == -math.inf:  # -inf times a weight of 0 would be NaN
            log_probs = np.maximum(log_probs, np.float32(IMPOSSIBLE))
        return cls(words, (first, labels, log_probs, *rest), order)

    @classmethod
    def from_levels(cls, words: Sequence[str], levels: Sequence[Level], dtype: type = np.float32) -> "NGram":
        """Builds the automaton; `levels` must hold every single word, with the numbers of `words`.

        Args:
            dtype: type of log-probabilities and back-off weights.
        """
        order = len(levels)
        own = _own_states(levels)
        states = 1 + sum(int((state > ROOT).sum()) for state in own)
        owners = [np.zeros(len(levels[0].word), np.int64)]
        owners += [state[level.prefix] for state, level in zip(own, levels[1:], strict=False)]
        owner = np.concatenate(owners)
        word = np.concatenate([level.word for level in levels])
        keys = owner << WORD_BITS | word
        if not (np.diff(keys) > 0).all():
            raise ValueError("n-grams must be sorted by prefix and word, each once")
        first = np.searchsorted(owner, np.arange(states + 1))
        backoffs: np.ndarray = np.zeros(states, dtype)
        shorter = np.zeros(states, np.int64)
        follow = np.zeros(len(word), np.int64)
        arcs = 0
        for k, (level, state) in enumerate(zip(levels, own, strict=True)):
            here = slice(arcs, arcs + len(level.word))
            arcs = here.stop
            suffix = _suffix_states(keys, follow, shorter, owner[here], level.word) if k else np.zeros_like(state)
            follow[here] = np.where(state > ROOT, state, suffix)
            backoffs[state[state > ROOT]] = level.backoff[state > ROOT]
            shorter[state[state > ROOT]] = suffix[state > ROOT]
        if END in words:
            follow[word == words.index(END)] = ROOT
        log_probs: np.ndarray = np.concatenate([level.log_prob for level in levels]).astype(dtype)
        arrays = (first, word.astype(np.int32), log_probs, follow.astype(np.int32), backoffs, shorter.astype(np.int32))
        return cls(words, arrays, order)

    def levels(self) -> list[Level]:
        """The n-grams of each order, as `from_levels` takes them."""
        first, words, log_probs, follow, backoffs, _ = self.arrays
        result: list[Level] = []
        begin, end, prefixes = ROOT, ROOT + 1, np.zeros(1, np.int64)  # the states whose contexts have the same length
        while len(result) < self.order:
            arcs = slice(first[begin], first[end])
            owners = np.repeat(np.arange(end - begin), np.diff(first[begin : end + 1]))
            own = follow[arcs] >= end  # the arc leads to a longer context, not to a suffix
            after = np.where(own, follow[arcs], ROOT)
            given_up = np.where(own, self.unit * backoffs[after].astype(np.float64), 0.0)
            log_prob = self.unit * log_probs[arcs].astype(np.float64)
            result.append(Level(prefixes[owners], words[arcs].astype(np.int64), log_prob, given_up))
            begin, end = end, max(end, int(after.max(initial=ROOT)) + 1)
            prefixes = np.zeros(end - begin, np.int64)
            prefixes[after[own] - begin] = np.flatnonzero(own)
        return result

    @property
    def start(self) -> int:
        """The state at the beginning of a sentence."""
        begin = self.index.get(BEGIN)
        return ROOT if begin is None or self.order == 1 else int(self.arrays[3][begin])

    @property
    def automaton(self) -> Automaton:
        first, words, log_probs, following, backoffs, shorter = self.arrays
        return Automaton(first, words, log_probs, following, backoffs, shorter, self.unit)

    def quantized(self) -> "NGram":
        """The same model in two thirds of the space: log-probabilities are rounded to `STEP`, at least -32 nats."""
        if self.unit == STEP:
            return self
        first, words, log_probs, follow, backoffs, shorter = self.arrays
        arrays = (
            first.astype(np.int32 if len(words) < 2**31 else np.int64),
            words.astype(np.uint16 if len(self.words) <= 2**16 else np.int32),
            _steps(log_probs),
            follow,
            _steps(backoffs),
            shorter,
        )
        return NGram(self.words, arrays, self.order)

    def advance(self, state: int, word: str) -> tuple[float, int]:
        """Natural log-probability of a word in a state, that of <unk> if the word is unknown, and the next state."""
        number = self.index.get(word, self.index.get(UNKNOWN, -1))
        if number < 0:
            return -math.inf, ROOT
        log_prob, state = advance(self.automaton, state, number)
        return float(log_prob), int(state)

    def score(self, words: Sequence[str], begin: bool = True, end: bool = True) -> float:
        """Natural log-probability of a sentence, between <s> and </s> if asked."""
        state, total = self.start if begin else ROOT, 0.0
        for word in [*words, *([END] if end else [])]:
            log_prob, state = self.advance(state, word)
            total += log_prob
        return total

    def knows(self, word: str) -> bool:
        """Whether the model has a probability for a word."""
        return word in self.index

    def save(self, path: str | Path) -> None:
        """Writes the compiled form atomically."""
        from safetensors.numpy import save

        metadata = {"format": FORMAT, "order": str(self.order), "words": json.dumps(self.words, ensure_ascii=False)}
        data = save(dict(zip(ARRAYS, map(np.ascontiguousarray, self.arrays), strict=True)), metadata)
        with atomic_write(path) as partial:
            partial.write_bytes(data)

    @classmethod
    def load(cls, path: str | Path) -> "NGram":
        """Reads an ARPA file (plain or .gz) or the compiled form; it detects which.

        Raises:
            InputError: the file is missing, damaged, or of another kind.
        """
        if is_arpa(Path(path)):
            return cls.from_levels(*read_arpa(Path(path)))
        return cls._load_compiled(Path(path))

    @classmethod
    def _load_compiled(cls, path: Path) -> "NGram":
        try:
            data = np.memmap(path, np.uint8, "r")
            length = int.from_bytes(data[:8].tobytes(), "little")
            header = json.loads(data[8 : 8 + length].tobytes())
            metadata = header["__metadata__"]
            if metadata["format"] != FORMAT:
                raise KeyError("format")
            arrays = tuple(_mapped(data, 8 + length, header[name]) for name in ARRAYS)
            words, order = json.loads(metadata["words"]), int(metadata["order"])
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise InputError(f"{path}: neither an ARPA file nor a language model of ds2, or cut off") from error
        try:
            return cls.from_arrays(words, arrays, order)
        except ValueError as error:
            raise InputError(f"{path}: damaged language model: {error}; build it again") from error


TYPES = {"I64": np.int64, "I32": np.int32, "I16": np.int16, "U16": np.uint16, "F32": np.float32}


def _steps(values: np.ndarray) -> np.ndarray:
    """Nats as multiples of `STEP`; values that 16 bits cannot hold become the nearest that they can."""
    return np.clip(np.round(values / STEP), -(2**15), 2**15 - 1).astype(np.int16)


def _mapped(data: np.ndarray, start: int, entry: dict) -> np.ndarray:
    """A tensor of a mapped safetensors file."""
    begin, end = entry["data_offsets"]
    part = data[start + begin : start + end]
    if begin < 0 or len(part) != end - begin:
        raise ValueError("cut off")
    return np.require(part.view(TYPES[entry["dtype"]]), requirements="A").reshape(entry["shape"])


def _own_states(levels: Sequence[Level]) -> list[np.ndarray]:
    """For each order the state of each n-gram; ROOT for one that no word follows and whose back-off weight is 1.

    After such an n-gram the model predicts the same as after its longest suffix, whose state takes its place.
    """
    states, last = [], ROOT
    for level, longer in itertools.pairwise(levels):
        needed = level.backoff != 0
        needed[longer.prefix] = True
        states.append(np.where(needed, last + np.cumsum(needed), ROOT))
        last += int(needed.sum())
    return [*states, np.full(len(levels[-1].word), ROOT)]


def _suffix_states(
    keys: np.ndarray, follow: np.ndarray, shorter: np.ndarray, owner: np.ndarray, word: np.ndarray
) -> np.ndarray:
    """The state of the longest proper suffix that has one: the arc with `word` from the owner's shorter context."""
    state, result = shorter[owner], np.full(len(word), -1)
    while (open_ := np.flatnonzero(result < 0)).size:
        wanted = state[open_] << WORD_BITS | word[open_]
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found = keys[place] == wanted
        result[open_[found]] = follow[place[found]]
        missing = open_[~found]
        result[missing[state[missing] == ROOT]] = ROOT
        state[missing] = shorter[state[missing]]
    return result


@inlined
def find_arc(labels, low, end, label):  # type: ignore[no-untyped-def]
    """The place of `label` in the sorted labels[low:end]; -1 if it is not there."""
    high = end
    while low < high:
        middle = (low + high) // 2
        if labels[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low if low < end and labels[low] == label else -1


@without_references
def advance(automaton, state, word):  # type: ignore[no-untyped-def]
    """(log-probability, next state) of word number `word`; every word has an arc from the root, at its number."""
    weight = 0.0
    while state != ROOT:
        arc = find_arc(automaton.words, automaton.first[state], automaton.first[state + 1], word)
        if arc >= 0:
            return automaton.unit * (weight + automaton.log_probs[arc]), automaton.next[arc]
        weight += automaton.backoffs[state]
        state = automaton.shorter[state]
    return automaton.unit * (weight + automaton.log_probs[word]), automaton.next[word]
