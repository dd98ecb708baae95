"""Counts the n-grams of a text that need not fit in memory.

The text is a file of word numbers. A second file holds, for each position, the number of the n-gram that ends there. An
n-gram one word longer is then one key: the number of its prefix, and its last word. Keys are counted block by block;
each block gives a sorted run, and the runs are merged.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ds2.lm.external_sort import Column, Columns, SortedRuns, slices
from ds2.lm.orders import BEGIN, END, UNKNOWN, WORD_BITS
from ds2.utils.errors import InputError

BUFFER = 1 << 20  # words that are numbered before they are written
NONE = -1  # no n-gram of this order ends here, because it would begin before the sentence
SPECIAL = (BEGIN, END)


@dataclass
class Grams:
    """All n-grams of one order in the text, sorted by (prefix, word)."""

    keys: Column  # number of the prefix among the n-grams of the order below << WORD_BITS | word
    suffixes: Column  # number, among the order below, of the n-gram without its first word
    counts: Column  # occurrences in the text
    begins: Column  # whether the first word is <s>

    def __len__(self) -> int:
        return len(self.keys)

    def families(self, size: int) -> Iterator[slice]:
        """Slices of about `size` n-grams that keep the n-grams of one prefix together."""
        start = 0
        while start < len(self):
            stop = min(start + size, len(self))
            prefix = self.keys[stop - 1 : stop] >> WORD_BITS
            for rows in slices(len(self) - stop, size):
                differs = self.keys[slice(stop, stop + rows.stop - rows.start)] >> WORD_BITS != prefix
                stop += int(differs.argmax()) if differs.any() else len(differs)
                if differs.any():
                    break
            yield slice(start, stop)
            start = stop


class _Numbers(dict[str, int]):
    """Gives each new word the next number."""

    def __missing__(self, word: str) -> int:
        self[word] = len(self)
        return self[word]


def number_words(
    sentences: Iterable[Sequence[str]], limit: int, listed: Sequence[str], columns: Columns, size: int
) -> tuple[list[str], Column]:
    """The words in order of their numbers, <unk> first; the text as numbers, with <s> and </s> around each sentence.

    Args:
        limit: how many of the most frequent words are kept; 0: all.
        listed: if any, only these words are kept, whether they occur in the text or not.

    Raises:
        InputError: there is no sentence, or a sentence holds <s>, </s> or <unk> as a word.
    """
    index = _Numbers()
    begin, end = index[BEGIN], index[END]
    corpus, buffer, seen = columns(np.int32), array("i"), 0
    for sentence in sentences:
        buffer.append(begin)
        buffer.extend(map(index.__getitem__, sentence))
        buffer.append(end)
        seen += 1
        if len(buffer) > min(BUFFER, size):
            corpus.append(np.frombuffer(buffer, np.int32))
            buffer = array("i")
    corpus.append(np.frombuffer(buffer, np.int32))
    if not seen:
        raise InputError("the corpus has no sentence")
    counts = tally(corpus, len(index), size)
    if special := [word for word in SPECIAL if counts[index[word]] > seen] + [UNKNOWN] * (UNKNOWN in index):
        raise InputError(f"the corpus holds {', '.join(sorted(special))} as a word: leave it out")
    seen_words = sorted((word for word in index if word not in SPECIAL), key=lambda word: (-counts[index[word]], word))
    kept = listed or (seen_words[:limit] if limit else seen_words)
    words = [UNKNOWN, *sorted([*SPECIAL, *kept])]
    numbers = {word: number for number, word in enumerate(words)}
    renumber = np.array([numbers.get(word, 0) for word in index], np.int32)
    for rows in slices(len(corpus), size):
        corpus[rows] = renumber[corpus[rows]]
    return words, corpus


def tally(column: Column, length: int, size: int) -> np.ndarray:
    """(length,) how often each number below `length` occurs in a column."""
    counts = np.zeros(length, np.int64)
    for rows in slices(len(column), size):
        counts += np.bincount(column[rows], minlength=length)
    return counts


def count_ngrams(corpus: Column, words: list[str], order: int, columns: Columns, size: int) -> Iterator[Grams]:
    """The n-grams of each order, with about `size` positions or n-grams in memory at most."""
    # Single words are counted directly.
    begin = words.index(BEGIN)
    own = Grams(columns(np.int64), columns(np.int64), columns(np.int64), columns(np.bool_))
    own.keys.append(np.arange(len(words)))
    own.suffixes.append(np.zeros(len(words)))
    own.counts.append(tally(corpus, len(words), size))
    own.begins.append(np.arange(len(words)) == begin)
    yield own
    # `ending` holds, for each position of the text, the place of the n-gram that ends there.
    ending = columns(np.int64)
    for rows in slices(len(corpus), size):
        ending.append(corpus[rows])
    # Each order comes from the one below: the n-gram that ends at a position and the next word give the longer one,
    # which sorting counts.
    for _ in range(order - 1):
        runs = _sorted_runs(corpus, ending, begin, columns, size)
        own = _merged(runs, own, columns, size)
        yield own
        for run, rows in enumerate(slices(len(corpus), size)):
            places, ranks = ending[rows], runs.ranks(run)
            ending[rows] = np.where(places == NONE, NONE, ranks[places]) if len(ranks) else places
        runs.clear()


def _sorted_runs(corpus: Column, ending: Column, begin: int, columns: Columns, size: int) -> SortedRuns:
    """A run of the n-grams one word longer for each slice; `ending` then holds the place of each key in its run."""
    runs, last = SortedRuns(columns), np.array([NONE])
    for rows in slices(len(corpus), size):
        words, shorter = corpus[rows], ending[rows]
        before, last = np.concatenate((last, shorter[:-1])), shorter[-1:]
        inside = np.flatnonzero((before != NONE) & (words != begin))
        keys = before[inside] << WORD_BITS | words[inside]
        keys, first, places, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        runs.add(keys, counts, shorter[inside[first]])
        longer = np.full(len(words), NONE)
        longer[inside] = places
        ending[rows] = longer
    return runs


def _merged(runs: SortedRuns, below: Grams, columns: Columns, size: int) -> Grams:
    own = Grams(columns(np.int64), columns(np.int64), columns(np.int64), columns(np.bool_))
    for merged in runs.merge(size):
        own.keys.append(merged.keys)
        own.suffixes.append(merged.tags)
        own.counts.append(merged.counts)
        prefix = merged.keys >> WORD_BITS
        own.begins.append(below.begins[slice(prefix[0], prefix[-1] + 1)][prefix - prefix[0]])
    return own
