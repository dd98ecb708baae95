"""Checks the arrays of a language model before a kernel walks them: a file may hold anything."""

from collections.abc import Mapping, Sequence

import numpy as np

from ds2.lm import packed
from ds2.lm.orders import UNKNOWN

KINDS = {  # types that each array of an Automaton may have
    "first": (np.int32, np.int64),
    "words": (np.uint16, np.int32),
    "log_probs": (np.int16, np.float32),
    "next": (np.int32,),
    "backoffs": (np.int16, np.float32),
    "shorter": (np.int32,),
}
PACKED_KINDS = dict(
    zip(packed.ARRAYS, (np.int16, np.uint32, np.uint8, *[np.uint32] * 3, np.uint8, np.float32, np.float32), strict=True)
)
FAULTS = {  # of a packed automaton
    packed.FIRST: "first must ascend from 0 to the number of n-grams",
    packed.WORDS: "the words of each state must ascend",
    packed.SHORTER: "shorter must lead to an earlier state",
    packed.ORDER: "its contexts are longer than its order",
}
MOST_ORDER = 64  # the longest order of n-grams
IMPOSSIBLE = -99.0 * np.log(10.0)  # log-probability that ARPA files give to impossible words
ABOVE_ZERO = 0.01  # nats by which rounding may lift a log-probability above 0
MOST_BACKOFF = 1000.0  # nats, largest absolute value


def check_words(words: Sequence[str], order: int) -> None:
    """Raises ValueError unless these can be the words and the order of a model."""
    if type(order) is not int or not 1 <= order <= MOST_ORDER:
        raise ValueError(f"its order must be from 1 to {MOST_ORDER}")
    if not isinstance(words, list | tuple) or not set(map(type, words)) <= {str}:
        raise ValueError("its words must be a list of texts")
    if not words or words[0] != UNKNOWN or len(set(words)) != len(words):
        raise ValueError(f"its words must differ and begin with {UNKNOWN}")


def check_arrays(arrays: Mapping[str, np.ndarray], words: int, order: int, unit: float) -> None:
    """Raises ValueError unless every index in an automaton's arrays, (S + 1,), (A,) or (S,), leads to an existing
    place, every search for a shorter context ends, and every weight is a number."""
    for name, kinds in KINDS.items():
        array = arrays[name]
        if array.ndim != 1 or array.dtype.type not in kinds:
            raise ValueError(f"{name} must be one row of {' or '.join(kind.__name__ for kind in kinds)}")
    first, labels, log_probs, following, backoffs, shorter = (arrays[name] for name in KINDS)
    if log_probs.dtype != backoffs.dtype:
        raise ValueError("log_probs and backoffs must have one type")
    if not len(labels) == len(log_probs) == len(following) or not len(backoffs) == len(shorter) == len(first) - 1 > 0:
        raise ValueError("the lengths of its arrays do not fit")
    _check_arcs(first, labels, words)
    if len(following) and not 0 <= following.min() <= following.max() < len(backoffs):
        raise ValueError("next leads to a state that is not there")
    _check_shorter(shorter, order)
    _check_weights(log_probs, backoffs, unit)


def check_packed(lm: packed.Packed, words: int, order: int) -> None:
    """The same for a packed automaton."""
    states, others = len(lm.backoffs), len(lm.log_probs)
    lengths = {
        "singles": words,
        "words": packed.words_for(others, lm.word_bits),
        "marks": 2 * -(-(words + others) // packed.BLOCK),
        "first": packed.words_for(states + 1, lm.place_bits),
        "shorter": packed.words_for(states, lm.state_bits),
        "levels": packed.LEVELS,
        "backoff_levels": packed.LEVELS,
    }
    for name, kind in PACKED_KINDS.items():
        array = getattr(lm, name)
        if array.ndim != 1 or array.dtype != kind or len(array) != lengths.get(name, len(array)):
            raise ValueError(f"{name} must be one row of {kind.__name__}, as long as the others need")
    if not states:
        raise ValueError("it has no state")
    # The marks must number the states without a gap: no arc then leads to a state that is not there.
    counts, bits = lm.marks[::2].astype(np.int64), np.bitwise_count(lm.marks[1::2]).astype(np.int64)
    if (counts != np.cumsum(bits) - bits).any() or bits.sum() != states - 1:
        raise ValueError("marks must lead to each state once")
    if fault := packed.fault(lm, np.zeros(states, np.uint8), order):
        raise ValueError(FAULTS[fault])
    if packed.STEP * lm.singles.max() > ABOVE_ZERO:
        raise ValueError("singles must be at most 0")
    if not np.isfinite(lm.levels).all():
        raise ValueError("levels must be numbers")
    _check_weights(lm.levels, lm.backoff_levels, 1.0)


def _check_arcs(first: np.ndarray, labels: np.ndarray, words: int) -> None:
    if first[0] != 0 or first[-1] != len(labels) or (first[1:] < first[:-1]).any():
        raise ValueError("first must ascend from 0 to the number of n-grams")
    if first[1] != words or (labels[:words] != np.arange(words)).any():
        raise ValueError("the root must know every word")
    if not 0 <= labels.min() <= labels.max() < words:
        raise ValueError("words holds a number that no word has")
    ascends = labels[1:] > labels[:-1]
    begins = first[1:-1]  # of all states but the root, whose words may be lower than the one before
    ascends[begins[(begins > 0) & (begins < len(labels))] - 1] = True
    if not ascends.all():
        raise ValueError("the words of each state must ascend")


def _check_shorter(shorter: np.ndarray, order: int) -> None:
    if shorter[0] != 0 or shorter.min() < 0 or (shorter[1:] >= np.arange(1, len(shorter))).any():
        raise ValueError("shorter must lead to an earlier state")
    state = np.arange(len(shorter))
    for _ in range(order - 1):
        state = shorter[state]
    if state.any():
        raise ValueError("its contexts are longer than its order")


def _check_weights(log_probs: np.ndarray, backoffs: np.ndarray, unit: float) -> None:
    if np.isnan(log_probs).any() or unit * log_probs.max() > ABOVE_ZERO:
        raise ValueError("log_probs must be at most 0")
    if not unit * np.abs(backoffs.astype(np.float64)).max() <= MOST_BACKOFF:  # false for NaN too
        raise ValueError(f"backoffs must be from -{MOST_BACKOFF:.0f} to {MOST_BACKOFF:.0f}")
