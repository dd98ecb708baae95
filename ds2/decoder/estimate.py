"""Estimates n-gram models: interpolated modified Kneser-Ney (Chen and Goodman 1999; Heafield et al. 2013).

Counts of the highest order are those of the corpus; a shorter n-gram counts in how many different words come before it
(those that begin a sentence: how often they do). Each count c gives up a discount D(c), c = 1, 2, 3 and more, estimated
from the counts of counts; what a context gives up in all, gamma, goes to the distribution of the shorter context:

    p(w | context) = (c(context w) - D) / c(context .) + gamma(context) p(w | shorter context)

and the shortest, of single words, shares it evenly among all words, <unk> included. As lmplz does it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ds2.decoder.ngram import BEGIN, END, UNKNOWN, WORD_BITS, Level
from ds2.errors import InputError

IMPOSSIBLE = -99.0 * np.log(10.0)  # of <s>, which is never predicted
FALLBACK = np.array([0.0, 0.5, 1.0, 1.5])  # discounts where a corpus is too small to tell


@dataclass(frozen=True)
class EstimateConfig:
    """What to estimate."""

    order: int = 3
    prune: tuple[int, ...] = ()  # n-grams of order k seen at most prune[k - 1] times are left out; the last one repeats
    vocabulary: int = 0  # most frequent words to keep, the others become <unk>; 0: all

    def __post_init__(self) -> None:
        if self.order < 1:
            raise ValueError(f"order {self.order} must be at least 1")
        if self.vocabulary < 0:
            raise ValueError(f"vocabulary {self.vocabulary} must be 0 (all words) or more")
        if any(threshold < 0 for threshold in self.prune) or list(self.prune) != sorted(self.prune):
            raise ValueError(f"prune {self.prune} must be thresholds of 0 or more that do not fall")
        if self.prune and self.prune[0] != 0:
            raise ValueError("prune: single words are kept, begin with 0; limit them with vocabulary")


@dataclass
class _Grams:
    """All n-grams of one order in the corpus, sorted by (prefix, word)."""

    prefix: np.ndarray  # number among the n-grams of the order below
    word: np.ndarray
    suffix: np.ndarray  # number, among the order below, of the n-gram without its first word
    count: np.ndarray  # in the corpus
    begins: np.ndarray  # whether the first word is <s>


def estimate(sentences: Iterable[Sequence[str]], config: EstimateConfig) -> tuple[list[str], list[Level]]:
    """Words, <unk> first, and the n-grams of each order.

    Raises:
        InputError: no sentence, or one that holds <s>, </s> or <unk> as a word.
    """
    words, corpus, starts = _number(sentences, config.vocabulary)
    grams = list(_count(corpus, starts, len(words), config.order))
    adjusted = [_adjusted(own, above) for own, above in zip(grams, [*grams[1:], None], strict=True)]
    kept = [
        own.count > _threshold(config.prune, order) if order > 1 else np.ones(len(own.word), bool)
        for order, own in enumerate(grams, 1)
    ]
    contexts = [1, *(len(own.word) for own in grams)]
    lower = np.full(1, 1.0 / (len(words) - 1))  # every word but <s>
    log_probs: list[np.ndarray] = []
    backoffs: list[np.ndarray] = []
    for own, count, keep, size in zip(grams, adjusted, kept, contexts, strict=False):
        below = np.exp(log_probs[-1])[own.suffix] if log_probs else lower
        probability, gamma = _interpolate(own, count, below, keep, size)
        log_probs.append(np.log(np.maximum(probability, 1e-300)))
        backoffs.append(np.log(np.maximum(gamma, 1e-300)))  # of the contexts: of the order below
        if len(log_probs) == 1:
            log_probs[0][words.index(BEGIN)] = IMPOSSIBLE
    backoffs = [*backoffs[1:], np.zeros(contexts[-1])]
    levels = [
        Level(own.prefix, own.word, log_prob, backoff)
        for own, log_prob, backoff in zip(grams, log_probs, backoffs, strict=True)
    ]
    return words, _pruned(levels, kept)


def _number(sentences: Iterable[Sequence[str]], limit: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Words in order of their numbers; the corpus as numbers, <s> and </s> around sentences; where sentences begin."""
    counts: Counter[str] = Counter()
    parts: list[np.ndarray] = []
    index: dict[str, int] = {}
    for sentence in sentences:
        counts.update(sentence)
        parts.append(np.array([index.setdefault(word, len(index)) for word in sentence], np.int64))
    if not parts:
        raise InputError("the corpus has no sentence")
    if special := {BEGIN, END, UNKNOWN} & set(index):
        raise InputError(f"the corpus holds {', '.join(sorted(special))} as a word: leave it out")
    kept = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    kept = sorted(kept[:limit] if limit else kept)
    words = [UNKNOWN, *sorted([BEGIN, END, *kept])]
    numbers = {word: number for number, word in enumerate(words)}
    renumber = np.array([numbers.get(word, 0) for word in index] or [0], np.int64)
    begin, end = np.array([numbers[BEGIN]]), np.array([numbers[END]])
    corpus = np.concatenate([piece for part in parts for piece in (begin, renumber[part], end)])
    lengths = np.array([len(part) + 2 for part in parts])
    return words, corpus, np.repeat(np.cumsum(lengths) - lengths, lengths)


def _count(corpus: np.ndarray, starts: np.ndarray, words: int, order: int) -> Iterator[_Grams]:
    """The n-grams of each order; an n-gram is its prefix's number and its last word, so that sorting is by one key."""
    position = np.arange(len(corpus))
    counts = np.bincount(corpus, minlength=words)
    everyone = np.arange(words)
    begins = everyone == corpus[0]
    yield _Grams(np.zeros(words, np.int64), everyone, np.zeros(words, np.int64), counts, begins)
    ending = corpus.copy()  # number of the n-gram that ends at each position
    inside = np.ones(len(corpus), bool)
    for length in range(2, order + 1):
        inside = position - starts >= length - 1
        keys = ending[position[inside] - 1] << WORD_BITS | corpus[inside]
        unique, first, inverse, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        prefix = unique >> WORD_BITS
        suffix = ending[position[inside][first]]  # still of the order below
        begins = begins[prefix]
        yield _Grams(prefix, unique & (1 << WORD_BITS) - 1, suffix, count, begins)
        ending = np.full(len(corpus), -1)
        ending[inside] = inverse


def _adjusted(own: _Grams, above: "_Grams | None") -> np.ndarray:
    """The highest order's counts; of the others how many different words come before, but for those behind <s>."""
    if above is None:
        return own.count.astype(np.float64)
    before = np.bincount(above.suffix, minlength=len(own.word))
    return np.where(own.begins, own.count, before).astype(np.float64)


def _discounts(count: np.ndarray) -> np.ndarray:
    """D(0) = 0, D(1), D(2), D(3 and more), of Chen and Goodman (1999), equation 26."""
    n = [0.0] + [float((count == k).sum()) for k in (1, 2, 3, 4)]
    if min(n[1:]) == 0:
        return FALLBACK
    y = n[1] / (n[1] + 2 * n[2])
    discounts = np.array([0.0] + [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)])
    return discounts if (discounts[1:] > 0).all() and (discounts <= np.arange(4)).all() else FALLBACK


def _interpolate(
    own: _Grams, count: np.ndarray, below: np.ndarray, keep: np.ndarray, contexts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Probability of each n-gram, and gamma of each context: what its n-grams gave up over what they had."""
    if contexts == 1:
        count = np.where(own.begins, 0.0, count)  # <s> is never predicted
    discount = _discounts(count)[np.minimum(count, 3).astype(int)]
    given = np.where(keep, discount, count)  # a pruned n-gram gives up everything
    total = np.bincount(own.prefix, count, contexts)
    gamma = np.divide(np.bincount(own.prefix, given, contexts), total, out=np.ones(contexts), where=total > 0)
    share = np.divide(count - given, total[own.prefix], out=np.zeros(len(count)), where=total[own.prefix] > 0)
    return share + gamma[own.prefix] * below, gamma


def _threshold(prune: tuple[int, ...], order: int) -> int:
    return prune[min(order, len(prune)) - 1] if prune else 0


def _pruned(levels: list[Level], kept: list[np.ndarray]) -> list[Level]:
    """Without the n-grams not kept; a context of one that is stays."""
    keep = kept[-1]
    keeps = [keep]
    for level, own in zip(levels[:0:-1], kept[-2::-1], strict=True):
        own = own.copy()
        own[level.prefix[keep]] = True
        keep = own
        keeps.insert(0, keep)
    result: list[Level] = []
    number = np.zeros(1, np.int64)
    for level, keep in zip(levels, keeps, strict=True):
        result.append(Level(number[level.prefix[keep]], level.word[keep], level.log_prob[keep], level.backoff[keep]))
        number = np.cumsum(keep) - 1
    return result
