"""Back-off n-gram language models, from ARPA files and in a compiled form.

The decoder's kernels walk its automaton; the compiled form is a safetensors file of this automaton's arrays, which is
mapped into memory, not read.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ds2.lm import packed
from ds2.lm.arpa import is_arpa, read_arpa
from ds2.lm.automaton import Automaton, advance, frozen, unpacked
from ds2.lm.checks import IMPOSSIBLE, check_arrays, check_packed, check_words
from ds2.lm.orders import BEGIN, END, UNKNOWN, WORD_BITS, NGramOrder
from ds2.lm.packed import ROOT, STEP, Packed
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write
from ds2.utils.mapped_tensors import map_tensors

FORMATS = ("ds2-ngram-1", "ds2-ngram-2")  # of an Automaton and of a Packed


class NGram:
    """A language model over words, or over characters as words.

    Attributes:
        words: the words in the order of their numbers, <unk> first.
        automaton: its n-grams.
        order: the length of the longest n-gram.
    """

    def __init__(self, words: Sequence[str], automaton: Automaton | Packed, order: int):
        self.words = tuple(words)
        self.index = dict(zip(self.words, itertools.count()))
        self.automaton: Automaton | Packed = frozen(automaton)
        self.order = order

    @classmethod
    def from_arrays(cls, words: Sequence[str], arrays: Mapping[str, np.ndarray], order: int) -> "NGram":
        """A model from arrays that are not trusted, from a file for example, by their names in `arrays`.

        Their shapes are those of `Automaton`, (S + 1,), (A,) and (S,), or of `Packed`.

        Raises:
            ValueError: the arrays are not an automaton.
            KeyError: an array is missing.
        """
        check_words(words, order)
        if "marks" in arrays:
            found = frozen(packed.from_arrays(*(arrays[name] for name in packed.ARRAYS)))
            check_packed(found, len(words), order)
            return cls(words, found, order)
        flat = {name: arrays[name] for name in Automaton._fields if name != "unit"}
        unit = STEP if flat["log_probs"].dtype == np.int16 else 1.0
        check_arrays(flat, len(words), order, unit)
        automaton = Automaton(**flat, unit=unit)
        if automaton.log_probs.min() == -math.inf:  # -inf times a weight of 0 would be NaN
            automaton = automaton._replace(log_probs=np.maximum(automaton.log_probs, np.float32(IMPOSSIBLE)))
        return cls(words, automaton, order)

    @classmethod
    def from_orders(cls, words: Sequence[str], orders: Sequence[NGramOrder], dtype: type = np.float32) -> "NGram":
        """Builds the automaton; `orders` must hold every single word, with the numbers of `words`.

        Args:
            dtype: type of log-probabilities and back-off weights.
        """
        order = len(orders)
        # Contexts that something follows become states; an n-gram is an arc of its prefix's state.
        own = _own_states(orders, words.index(END) if END in words else -1)
        states = 1 + sum(int((state > ROOT).sum()) for state in own)
        owners = [np.zeros(len(orders[0].word), np.int64)]
        owners += [state[grams.prefix] for state, grams in zip(own, orders[1:], strict=False)]
        owner = np.concatenate(owners)
        word = np.concatenate([grams.word for grams in orders])
        keys = owner << WORD_BITS | word
        if not (np.diff(keys) > 0).all():
            raise ValueError("n-grams must be sorted by prefix and word, each once")
        first = np.searchsorted(owner, np.arange(states + 1))
        backoffs: np.ndarray = np.zeros(states, dtype)
        shorter = np.zeros(states, np.int64)
        follow = np.zeros(len(word), np.int64)
        arcs = 0
        # An arc leads to its n-gram's own state or, without one, to that of its longest known suffix, which the orders
        # below have given already.
        for k, (grams, state) in enumerate(zip(orders, own, strict=True)):
            here = slice(arcs, arcs + len(grams.word))
            arcs = here.stop
            suffix = _suffix_states(keys, follow, shorter, owner[here], grams.word) if k else np.zeros_like(state)
            follow[here] = np.where(state > ROOT, state, suffix)
            backoffs[state[state > ROOT]] = grams.backoff[state > ROOT]
            shorter[state[state > ROOT]] = suffix[state > ROOT]
        if END in words:
            follow[word == words.index(END)] = ROOT
        log_probs: np.ndarray = np.concatenate([grams.log_prob for grams in orders]).astype(dtype)
        automaton = Automaton(
            first, word.astype(np.int32), log_probs, follow.astype(np.int32), backoffs, shorter.astype(np.int32), 1.0
        )
        return cls(words, automaton, order)

    def orders(self) -> list[NGramOrder]:
        """The n-grams of each order, as `from_orders` takes them."""
        first, words, log_probs, follow, backoffs, _, unit = unpacked(self.automaton)
        result: list[NGramOrder] = []
        begin, end, prefixes = ROOT, ROOT + 1, np.zeros(1, np.int64)  # the states whose contexts have the same length
        while len(result) < self.order:
            arcs = slice(first[begin], first[end])
            owners = np.repeat(np.arange(end - begin), np.diff(first[begin : end + 1]))
            own = follow[arcs] >= end  # the arc leads to a longer context, not to a suffix
            after = np.where(own, follow[arcs], ROOT)
            given_up = np.where(own, unit * backoffs[after].astype(np.float64), 0.0)
            log_prob = unit * log_probs[arcs].astype(np.float64)
            result.append(NGramOrder(prefixes[owners], words[arcs].astype(np.int64), log_prob, given_up))
            begin, end = end, max(end, int(after.max(initial=ROOT)) + 1)
            prefixes = np.zeros(end - begin, np.int64)
            prefixes[after[own] - begin] = np.flatnonzero(own)
        return result

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the automaton, (S + 1,), (A,) and (S,), as `from_arrays` takes them."""
        return {name: array for name, array in self.automaton._asdict().items() if isinstance(array, np.ndarray)}

    @property
    def start(self) -> int:
        """The state at the beginning of a sentence."""
        return ROOT if BEGIN not in self.index or self.order == 1 else self.advance(ROOT, BEGIN)[1]

    @property
    def single_log_probs(self) -> np.ndarray:
        """(V,) log-probability of each word without context."""
        if isinstance(self.automaton, Packed):
            return STEP * self.automaton.singles
        return self.automaton.unit * self.automaton.log_probs[: len(self.words)]

    @property
    def rounded(self) -> bool:
        """Whether the log-probabilities are rounded."""
        return isinstance(self.automaton, Packed) or self.automaton.unit != 1.0

    @property
    def states(self) -> int:
        """The number of histories that the model distinguishes."""
        return len(self.automaton.backoffs)

    @property
    def ngrams(self) -> int:
        """The number of n-grams of all orders."""
        singles = len(self.words) if isinstance(self.automaton, Packed) else 0
        return singles + len(self.automaton.log_probs)

    def quantized(self) -> "NGram":
        """The same model in a third of the space, see `packed`.

        Raises:
            InputError: an n-gram continues after the end of a sentence.
        """
        if isinstance(self.automaton, Packed):
            return self
        first, words, log_probs, follow, backoffs, shorter, unit = self.automaton
        arrays = packed.pack(first, words, unit * log_probs, follow, unit * backoffs, shorter)
        return NGram(self.words, packed.from_arrays(*arrays), self.order)

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

    def scores(self, nbests: Sequence[Sequence[Sequence[str]]]) -> list[list[float]]:
        """Natural log-probabilities of the sentences of each n-best, each between <s> and </s>."""
        return [list(map(self.score, nbest)) for nbest in nbests]

    def knows(self, word: str) -> bool:
        """Whether the model has a probability for a word."""
        return word in self.index

    def save(self, path: str | Path) -> None:
        """Writes the compiled form atomically; the same model gives the same bytes.

        safetensors would write the metadata in an order of chance, and none beyond 100 MB, some six million words.
        """
        from safetensors.numpy import save

        name = FORMATS[isinstance(self.automaton, Packed)]
        metadata = {"format": name, "order": str(self.order), "words": json.dumps(self.words, ensure_ascii=False)}
        data = save({name: np.ascontiguousarray(array) for name, array in self.arrays.items()})
        start = 8 + int.from_bytes(data[:8], "little")
        entries = {"__metadata__": metadata} | json.loads(data[8:start])
        header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)  # arrays are aligned
        with atomic_write(path) as partial, partial.open("wb") as file:
            file.writelines((len(header).to_bytes(8, "little"), header, memoryview(data)[start:]))

    @classmethod
    def load(cls, path: str | Path) -> "NGram":
        """Reads an ARPA file (plain or .gz) or the compiled form; it detects which.

        Raises:
            InputError: the file is missing, damaged, or of another kind.
        """
        if is_arpa(Path(path)):
            return cls.from_orders(*read_arpa(Path(path)))
        return cls._load_compiled(Path(path))

    @classmethod
    def _load_compiled(cls, path: Path) -> "NGram":
        try:
            metadata, mapped = map_tensors(path)
            names = (Automaton._fields[:-1], packed.ARRAYS)[FORMATS.index(metadata["format"])]
            arrays = {name: mapped[name] for name in names}
            words, order = json.loads(metadata["words"]), int(metadata["order"])
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
        except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise InputError(f"{path}: neither an ARPA file nor a language model of ds2, or cut off") from error
        try:
            return cls.from_arrays(words, arrays, order)
        except ValueError as error:
            raise InputError(f"{path}: damaged language model: {error}; build it again") from error


def _own_states(orders: Sequence[NGramOrder], end: int) -> list[np.ndarray]:
    """For each order the state of each n-gram; ROOT for one that no word follows and whose back-off weight is 1.

    After such an n-gram the model predicts the same as after its longest suffix, whose state takes its place.
    """
    states, last = [], ROOT
    for grams, longer in itertools.pairwise(orders):
        needed = (grams.backoff != 0) & (grams.word != end)
        needed[longer.prefix] = True
        states.append(np.where(needed, last + np.cumsum(needed), ROOT))
        last += int(needed.sum())
    return [*states, np.full(len(orders[-1].word), ROOT)]


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
