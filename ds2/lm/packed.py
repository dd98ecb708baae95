"""The automaton of an n-gram model in bits: some four bytes for an n-gram, without what a search can find itself.

A state is a context, and its arcs, the words that follow it, lie side by side, as in an `Automaton`. An arc has the
number of its word in as many bits as the largest needs, and a byte for its log-probability, a place in a table of 256:

    place    0     1     2     3     4     5   |  6     7    ...
    word    the   cat   sat   ...  the root's  | cat   dog   ...  those of state 1
    mark     1     1     0     ...             |  0     1    ...  1: the arc leads to a context that is one word longer

Those contexts are numbered in the order of their arcs, so the number of marks up to an arc is the state it leads to;
`marks` holds, for each 32 arcs, the number of marks before them and their own 32. An arc without a mark leads to the
longest shorter context that the word leads on from, and the search looks for the word there. The root has an arc for
each word at its number, so it stores no words, and its log-probabilities have 16 bits.
"""

from typing import NamedTuple

import numpy as np

from ds2.utils.errors import InputError
from ds2.utils.jit import compiled, inlined, without_references

ROOT = 0
STEP = 1 / 1024  # nats: the unit of the single words' log-probabilities
LEAST = -(2**15) * STEP  # nats: the lowest log-probability, as far as 16 bits reach
LEVELS = 256  # log-probabilities, and back-off weights, that one byte can name
ARRAYS = ("singles", "words", "log_probs", "marks", "first", "shorter", "backoffs", "levels", "backoff_levels")
BLOCK = 32  # arcs
FIRST, WORDS, SHORTER, ORDER = 1, 2, 3, 4  # faults


class Packed(NamedTuple):
    """The arrays of S states and A arcs, of which the first V are the root's. Numbers of several bits follow each
    other without gaps in words of 32 bits, with one more at the end."""

    singles: np.ndarray  # (V,) int16 log-probabilities of single words, in STEP
    words: np.ndarray  # uint32, (A - V,) words of `word_bits`
    log_probs: np.ndarray  # (A - V,) uint8 places in `levels`
    marks: np.ndarray  # (2 * blocks,) uint32: the marks before each block, and its own as bits
    first: np.ndarray  # uint32, (S + 1,) places of `place_bits`: where the arcs of each state begin
    shorter: np.ndarray  # uint32, (S,) states of `state_bits`
    backoffs: np.ndarray  # (S,) uint8 places in `backoff_levels`
    levels: np.ndarray  # (LEVELS,) float32 nats
    backoff_levels: np.ndarray  # (LEVELS,) float32 nats
    word_bits: int
    place_bits: int
    state_bits: int


def from_arrays(*arrays: np.ndarray) -> Packed:
    """The automaton of ARRAYS, with the numbers of bits that follow from their lengths."""
    singles, _, log_probs, _, _, _, backoffs, *_ = arrays
    words, ngrams = len(singles), len(singles) + len(log_probs)
    return Packed._make((*arrays, bits_for(words - 1), bits_for(ngrams), bits_for(len(backoffs) - 1)))


def pack(
    first: np.ndarray,
    words: np.ndarray,
    log_probs: np.ndarray,
    following: np.ndarray,
    backoffs: np.ndarray,
    shorter: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """ARRAYS from those of an `Automaton` in nats: (S + 1,), (A,), (A,), (A,), (S,), (S,).

    Raises:
        InputError: a context cannot be reached, because it begins with </s>.
    """
    # An arc is marked where it leads to a new context: contexts are numbered in the order of these arcs.
    singles = int(first[1])
    longest = np.maximum.accumulate(np.append(ROOT, following[:-1]))
    marked = following > longest
    if int(marked.sum()) != len(shorter) - 1:
        raise InputError("the model cannot be quantised: words follow </s> in it")
    levels, codes = coded(np.maximum(log_probs[singles:], LEAST))
    backoff_levels, backoff_codes = coded(backoffs)
    steps = np.round(np.maximum(log_probs[:singles], LEAST) / STEP).astype(np.int16)
    return (
        steps,
        in_bits(words[singles:], bits_for(singles - 1)),
        codes,
        _mark_blocks(marked),
        in_bits(first, bits_for(len(words))),
        in_bits(shorter, bits_for(len(shorter) - 1)),
        backoff_codes,
        levels,
        backoff_levels,
    )


def flat_arrays(lm: Packed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(S + 1,) first, (A,) words, (S,) shorter of an `Automaton`."""
    first = read_all(lm.first, lm.place_bits, len(lm.backoffs) + 1)
    words = read_all(lm.words, lm.word_bits, len(lm.log_probs)).astype(np.int32)
    shorter = read_all(lm.shorter, lm.state_bits, len(lm.backoffs)).astype(np.int32)
    return first, np.concatenate((np.arange(len(lm.singles), dtype=np.int32), words)), shorter


def bits_for(largest: int) -> int:
    """The bits that a number up to `largest` needs, at least one."""
    return max(1, int(largest).bit_length())


def in_bits(numbers: np.ndarray, bits: int) -> np.ndarray:
    """(N,) numbers -> (n,) 32-bit words that hold them in so many bits each, without gaps."""
    result = np.zeros(words_for(len(numbers), bits), np.uint32)
    _write_all(result, bits, numbers)
    return result


def words_for(count: int, bits: int) -> int:
    """The 32-bit words of `count` numbers; a read takes two, so there is one more."""
    return -(-count * bits // 32) + 1


def coded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(LEVELS,) ascending values: all that are different if so many suffice, otherwise evenly from the lowest to the
    highest; (N,) uint8 place of the nearest to each value."""
    levels = np.unique(values if len(values) else np.zeros(1)).astype(np.float32)
    if len(levels) > LEVELS:
        levels = np.linspace(levels[0], levels[-1], LEVELS, dtype=np.float32)
    levels = np.pad(levels, (0, LEVELS - len(levels)), "edge")
    return levels, np.searchsorted((levels[1:] + levels[:-1]) / 2, values).astype(np.uint8)


def _mark_blocks(marked: np.ndarray) -> np.ndarray:
    """The marks of each block as bits of a number, each after the number of marks before it."""
    rows = np.zeros((-(-len(marked) // BLOCK), BLOCK), bool)
    rows.reshape(-1)[: len(marked)] = marked
    bits = np.packbits(rows, axis=1, bitorder="little").view("<u4").reshape(-1)
    counts = rows.sum(1)
    return np.stack((np.cumsum(counts) - counts, bits), 1).reshape(-1).astype(np.uint32)


@without_references
def _write_all(packed, bits, numbers):  # type: ignore[no-untyped-def]
    for place in range(len(numbers)):
        at = place * bits
        pair = np.int64(numbers[place]) << (at & 31)
        packed[at >> 5] |= np.uint32(pair & 0xFFFFFFFF)
        packed[(at >> 5) + 1] |= np.uint32(pair >> 32)


@inlined
def read_number(packed, bits, place):  # type: ignore[no-untyped-def]
    """Number `place` of those of so many bits each, at most 32."""
    # An index without a sign is not tested for counting from the end.
    one, five, word, bits = np.uint64(1), np.uint64(5), np.uint64(32), np.uint64(bits)
    at = np.uint64(place) * bits
    pair = np.uint64(packed[at >> five]) | np.uint64(packed[(at >> five) + one]) << word
    return np.int64((pair >> (at & (word - one))) & ((one << bits) - one))


@compiled
def read_all(packed, bits, count):  # type: ignore[no-untyped-def]
    """(count,) int64 numbers."""
    numbers = np.empty(count, np.int64)
    for place in range(count):
        numbers[place] = read_number(packed, bits, place)
    return numbers


@without_references
def fault(lm, lengths, order):  # type: ignore[no-untyped-def]
    """What is wrong with the arcs and the shorter contexts of the states, FIRST for example; 0: nothing.

    Fills (S,) uint8 `lengths`, zeros before, with the steps from each state to the root.
    """
    singles, ngrams = np.int64(len(lm.singles)), np.int64(len(lm.singles) + len(lm.log_probs))
    # The root has the arcs of all words; each state after it begins where the one before ended.
    begin = read_number(lm.first, lm.place_bits, 1)
    if read_number(lm.first, lm.place_bits, 0) != 0 or begin != singles:
        return FIRST
    if read_number(lm.shorter, lm.state_bits, 0) != ROOT:
        return SHORTER
    for state in range(1, len(lm.backoffs)):
        end, before = read_number(lm.first, lm.place_bits, state + 1), np.int64(-1)
        if not begin <= end <= ngrams:
            return FIRST
        for arc in range(begin - singles, end - singles):
            word = read_number(lm.words, lm.word_bits, arc)
            if not before < word < singles:
                return WORDS
            before = word
        begin = end
        shorter = read_number(lm.shorter, lm.state_bits, state)
        if shorter >= state:
            return SHORTER
        lengths[state] = lengths[shorter] + 1
        if lengths[state] >= order:
            return ORDER
    return 0 if begin == ngrams else FIRST


@inlined
def _longer(marks, arc):  # type: ignore[no-untyped-def]
    """The state of the longer context that an arc leads to; ROOT without a mark."""
    bits, bit = np.int64(marks[2 * (arc >> 5) + 1]), arc & 31
    if not (bits >> bit) & 1:
        return np.int64(ROOT)
    # Counts the marks of the block up to this arc: sums of two bits, of four, of eight, and of all by a multiplication.
    bits &= (2 << bit) - 1
    bits -= (bits >> 1) & 0x55555555
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return np.int64(marks[2 * (arc >> 5)]) + ((bits * 0x01010101 & 0xFFFFFFFF) >> 24)


@inlined
def _find(lm, state, word):  # type: ignore[no-untyped-def]
    """The place of a state's arc for a word among those that are not the root's; -1 if there is none."""
    singles = len(lm.singles)
    low, end = (
        read_number(lm.first, lm.place_bits, state) - singles,
        read_number(lm.first, lm.place_bits, state + 1) - singles,
    )
    high = end
    while low < high:
        middle = (low + high) >> 1
        if read_number(lm.words, lm.word_bits, middle) < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and read_number(lm.words, lm.word_bits, low) == word else -1


@without_references
def advance_packed(lm, state, word):  # type: ignore[no-untyped-def]
    """(log-probability, next state) of word number `word`: the first arc gives the one, the first mark the other."""
    weight, found = 0.0, False
    while state != ROOT:
        # The log-probability is that of the longest context with an arc for the word; contexts before it give their
        # back-off weights. The search for a mark, which tells the next state, goes on from there.
        arc = _find(lm, state, word)
        if arc >= 0:
            if not found:
                weight += lm.levels[lm.log_probs[arc]]
                found = True
            longer = _longer(lm.marks, arc + len(lm.singles))
            if longer != ROOT:
                return weight, longer
        elif not found:
            weight += lm.backoff_levels[lm.backoffs[state]]
        state = read_number(lm.shorter, lm.state_bits, state)
    if not found:
        weight += STEP * lm.singles[word]
    return weight, _longer(lm.marks, word)
