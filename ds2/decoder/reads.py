"""What has been read of a beam's lattice, and what waits: the state of `ds2.decoder.nbest`.

waiting   the best hypothesis of each entry, and of each that was read the next best way to leave it by an arc
reads     those that were read, best first: labels with their times, words, and the ways to leave them
"""

import math
from typing import NamedTuple

import numpy as np

from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.lexicon import NO_LEXICON, Trie
from ds2.decoder.prefixes import NONE
from ds2.lm.automaton import find_arc
from ds2.utils.jit import without_references

READS, LABELS, WAYS = 1 << 8, 1 << 16, 1 << 13  # room at first; what is not used takes no memory
FIRST_HASH, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a

WAITING = np.dtype([
    ("cost", np.float64),  # nats, the negative of its score
    ("gains", np.float64),
    ("number", np.int64),  # the first of equal ones comes first
    ("entry", np.int64),
    ("left", np.int64),  # the read that it leaves; NONE for the best one of the entry
    ("way", np.int64),  # by which it does
])  # fmt: skip
READ = np.dtype([
    ("cost", np.float64),
    ("gains", np.float64),
    ("entry", np.int64),
    ("ways", np.int64),  # those that leave it before it goes on in another read
    ("ways_past", np.int64),
])  # fmt: skip
SPAN = np.dtype([("first", np.int64), ("past", np.int64), ("hash", np.uint64)])
WAY = np.dtype([("place", np.int64), ("arc", np.int64), ("cost", np.float64)])  # `place`: of the label that follows
COUNTS = np.dtype([(name, np.int64) for name in ("waiting", "pushed", "reads", "labels", "ways", "words", "strings")])


class Reading(NamedTuple):
    """What is read of a beam: of each text the best hypothesis, from so many strings of labels.

    Attributes:
        most: strings.
        trie: of the lexicon.
        texts: (words,) numbers; words with one number are one text. Empty: each string of labels is a text.
        space: the label between words.
    """

    most: int = 1 << 62
    trie: Trie = NO_LEXICON
    texts: np.ndarray = np.zeros(0, np.int32)
    space: int = NONE


EVERY = Reading()  # string of labels


class Reads(NamedTuple):
    """What has been read, and what waits. Only as many elements count as `counts` says."""

    waiting: np.ndarray  # of WAITING
    reads: np.ndarray  # of READ,
    strings: np.ndarray  # of SPAN: the labels of each read,
    texts: np.ndarray  # of SPAN: and its words
    symbols: np.ndarray  # int32, of labels,
    times: np.ndarray  # (labels, 2) int32: first frame, and one past the last,
    peaks: np.ndarray  # and log-probabilities
    words: np.ndarray  # int32 numbers of texts
    ways: np.ndarray  # of WAY
    counts: np.ndarray  # (1,) of COUNTS

    @classmethod
    def of(cls, scores: np.ndarray, gains: np.ndarray) -> "Reads":
        """Nothing has been read; the best hypotheses of all entries wait, with (N,) scores and gains."""
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] > -math.inf]
        waiting, counts = np.empty(len(order) + READS, WAITING), np.zeros(1, COUNTS)
        first = waiting[: len(order)]
        first["cost"], first["gains"], first["number"] = -scores[order], gains[order], np.arange(len(order))
        first["entry"], first["left"], first["way"] = order, NONE, NONE
        counts["waiting"] = counts["pushed"] = len(order)
        of_labels = np.empty(LABELS, np.int32), np.empty((LABELS, 2), np.int32), np.empty(LABELS)
        reads = np.empty(READS, READ), np.empty(READS, SPAN), np.empty(READS, SPAN)
        return cls._make([waiting, *reads, *of_labels, np.empty(LABELS, np.int32), np.empty(WAYS, WAY), counts])

    def larger(self) -> "Reads":
        """The same with twice the room."""
        return Reads._make([*(np.concatenate([array, np.empty_like(array)]) for array in self[:-1]), self.counts])

    def hypothesis(self, number: int) -> Hypothesis:
        """The one that was read at this place."""
        read, (first, past, _) = self.reads[number], self.strings[number].tolist()
        starts, ends = map(tuple, self.times[first:past].T.tolist())
        confidences = tuple(map(math.exp, self.peaks[first:past].tolist()))
        symbols = tuple(self.symbols[first:past].tolist())
        return Hypothesis(symbols, starts, ends, confidences, -float(read["cost"]), float(read["gains"]))


@without_references
def spell(reading, reads, number):  # type: ignore[no-untyped-def]
    """Finds the words of a read; what is between spaces and no word is left out."""
    counts, labels, words, trie = reads.counts[0], reads.strings[number], reads.texts[number], reading.trie
    words.first = counts.words
    node = np.int64(0)
    for place in range(labels.first, labels.past + 1):
        if place < labels.past and reads.symbols[place] != reading.space:
            if node != NONE:
                arc = find_arc(trie.tokens, trie.first[node], trie.first[node + 1], reads.symbols[place])
                node = np.int64(trie.children[arc]) if arc >= 0 else NONE
        else:
            if node != NONE and trie.words[node] != NONE:
                reads.words[counts.words] = reading.texts[trie.words[node]]
                counts.words += 1
            node = np.int64(0)
    words.past = counts.words


@without_references
def is_new(values, spans, number):  # type: ignore[no-untyped-def]
    """Whether no earlier span has the same values; notes its hash."""
    span, hashed = spans[number], FIRST_HASH
    for place in range(span.first, span.past):
        hashed = (hashed ^ np.uint64(values[place])) * PRIME
    span.hash = hashed
    for earlier in range(number):
        other = spans[earlier]
        if other.hash == hashed and other.past - other.first == span.past - span.first:
            same = 0
            while span.first + same < span.past and values[other.first + same] == values[span.first + same]:
                same += 1
            if span.first + same == span.past:
                return False
    return True
