"""Estimates n-gram models: interpolated modified Kneser-Ney (Chen and Goodman 1999; Heafield et al. 2013).

The highest order uses the counts of the text. A shorter n-gram counts how many different words come before it; one that
begins a sentence counts its occurrences. Each count c gives up a discount D(c), for c = 1, 2, and 3 or more, estimated
from the counts of counts. What a context gives up in all, gamma, goes to the distribution of the shorter context:

    p(w | context) = (c(context w) - D) / c(context .) + gamma(context) p(w | shorter context)

The distribution of single words shares its gamma evenly among all words, <unk> included, as lmplz does.

If all orders use the counts of the text, the method is modified absolute discounting. It predicts worse, but its short
n-grams are as probable as they are frequent, which pruning requires.

Everything as long as the text, or as long as the list of its n-grams, is kept in temporary files (in TMPDIR) and passes
through memory in slices. The result does not depend on the size of the slices.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ds2.lm.checks import MOST_ORDER
from ds2.lm.counting import Grams, count_ngrams, number_words
from ds2.lm.external_sort import Column, Columns, slices
from ds2.lm.orders import BEGIN, END, UNKNOWN, WORD_BITS, NGramOrder
from ds2.utils.files import temporary_folder

IMPOSSIBLE = -99.0 * np.log(10.0)  # log-probability of <s>, which is never predicted
FALLBACK = np.array([0.0, 0.5, 1.0, 1.5])  # discounts for texts too small to estimate them
MOST_MEMORY = 1e9  # MB
BYTES = 160  # memory for each position of the text or each n-gram during sorting
WORD_MASK = (1 << WORD_BITS) - 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EstimateConfig:
    """The options of `estimate`."""

    order: int = 3
    prune: tuple[int, ...] = ()  # n-grams of order k seen at most prune[k - 1] times are left out; the last one repeats
    vocabulary: int = 0  # number of most frequent words to keep, the others become <unk>; 0: all
    words: tuple[str, ...] = ()  # if any: only these are kept, each with a probability, whether it occurs or not
    continuation: bool = True  # shorter n-grams count the words that come before them; False: their occurrences
    memory: float = 1000.0  # MB for sorting; the words, and finally the model itself, come on top

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MOST_ORDER:
            raise ValueError(f"order {self.order} must be from 1 to {MOST_ORDER}")
        if self.vocabulary < 0:
            raise ValueError(f"vocabulary {self.vocabulary} must be 0 (all words) or more")
        if len(set(self.words) - {BEGIN, END, UNKNOWN}) < len(self.words):
            raise ValueError("words: each may stand there once, and none of <s>, </s>, <unk>")
        if not 0 < self.memory <= MOST_MEMORY:
            raise ValueError(f"memory {self.memory} must be above 0 and at most {MOST_MEMORY:.0e} MB")
        if any(threshold < 0 for threshold in self.prune) or list(self.prune) != sorted(self.prune):
            raise ValueError(f"prune {self.prune} must be thresholds of 0 or more that do not fall")
        if self.prune and self.prune[0] != 0:
            raise ValueError("prune: single words are kept, begin with 0; limit them with vocabulary")

    @property
    def rows(self) -> int:
        """Positions or n-grams that may be in memory at once."""
        return max(1, int(self.memory * 1e6 / BYTES))

    def threshold(self, order: int) -> int:
        """The count that n-grams of an order must exceed to be kept."""
        return self.prune[min(order, len(self.prune)) - 1] if self.prune else 0


def estimate(sentences: Iterable[Sequence[str]], config: EstimateConfig) -> tuple[list[str], list[NGramOrder]]:
    """The words, <unk> first, and the n-grams of each order.

    Raises:
        InputError: there is no sentence, a sentence holds <s>, </s> or <unk> as a word, or the temporary disk is full.
    """
    with temporary_folder() as folder, Columns(folder) as columns:
        words, corpus = number_words(sentences, config.vocabulary, config.words, columns, config.rows)
        grams = []
        for order, own in enumerate(count_ngrams(corpus, words, config.order, columns, config.rows), 1):
            logger.info("counted %s %d-grams", f"{len(own):,}", order)
            grams.append(own)
        return words, _Estimator(config, columns, grams, words.index(BEGIN)).orders()


class _Estimator:
    """Processes the n-grams of each order in families with one prefix, so that their contexts are sorted as well."""

    def __init__(self, config: EstimateConfig, columns: Columns, grams: list[Grams], begin: int):
        self.config, self.columns, self.grams, self.begin = config, columns, grams, begin
        self.size = config.rows

    def orders(self) -> list[NGramOrder]:
        log_probs: list[Column] = []
        backoffs: list[Column] = []  # back-off weights of the contexts, which are n-grams of the order below
        for order in range(1, len(self.grams) + 1):
            adjusted = self._adjusted(order)
            log_prob, backoff = self._interpolated(order, adjusted, log_probs[-1] if log_probs else None)
            logger.info("estimated the probabilities of %d-grams", order)
            log_probs.append(log_prob)
            backoffs.append(backoff)
        highest = self.columns(np.float64)
        for rows in slices(len(self.grams[-1]), self.size):
            highest.append(np.zeros(rows.stop - rows.start))
        return self._pruned(log_probs, [*backoffs[1:], highest])

    def _adjusted(self, order: int) -> Column:
        """The counts of the highest order; for others the number of different preceding words, except after <s>."""
        own, above = self.grams[order - 1], None
        if order < len(self.grams) and self.config.continuation:
            above = self.grams[order]
        adjusted = self.columns(np.int64)
        for rows in slices(len(own), self.size):
            count = own.counts[rows]
            if above is not None:
                before = np.zeros(len(count), np.int64)
                for longer in slices(len(above), self.size):
                    suffix = above.suffixes[longer] - rows.start
                    before += np.bincount(suffix[(suffix >= 0) & (suffix < len(before))], minlength=len(before))
                count = np.where(own.begins[rows], count, before)
            adjusted.append(count)
        if order == 1:
            adjusted[self.begin : self.begin + 1] = np.zeros(1)  # <s> is never predicted
        return adjusted

    def _interpolated(self, order: int, adjusted: Column, shorter: Column | None) -> tuple[Column, Column]:
        """Log-probability of each n-gram; log of each context's gamma, given up / total."""
        own = self.grams[order - 1]
        discounts = _discounts(self._counts_of_counts(adjusted))
        log_probs, backoffs = self.columns(np.float64), self.columns(np.float64)
        for rows, context, contexts in self._families(order):
            count = adjusted[rows].astype(np.float64)
            discount = discounts[np.minimum(count, 3).astype(int)]
            given = np.where(self._seen_enough(order, rows), discount, count)  # a pruned n-gram gives up everything
            # What is taken off here a context gives to all words, by their probability after its shorter context.
            total = np.bincount(context, count, contexts)
            gamma = np.divide(np.bincount(context, given, contexts), total, out=np.ones(contexts), where=total > 0)
            backoffs.append(_log(gamma))
            total = total[context]
            share = np.divide(count - given, total, out=np.zeros(len(count)), where=total > 0)
            if shorter is None:
                below = np.full(len(count), 1.0 / (len(own) - 1))  # every word but <s>
            else:
                below = np.exp(shorter.gather(own.suffixes[rows], self.size))
            log_probs.append(_log(share + gamma[context] * below))
        if order == 1:
            log_probs[self.begin : self.begin + 1] = np.array([IMPOSSIBLE])
        return log_probs, backoffs

    def _families(self, order: int) -> Iterator[tuple[slice, np.ndarray, int]]:
        """Slices of an order: (slice, context of each n-gram, number of contexts); the contexts are consecutive."""
        own, done = self.grams[order - 1], 0
        all_contexts = len(self.grams[order - 2]) if order > 1 else 1
        for rows in own.families(self.size):
            prefix = own.keys[rows] >> WORD_BITS
            last = all_contexts if rows.stop == len(own) else int(prefix[-1]) + 1
            yield rows, prefix - done, last - done
            done = last
        if done < all_contexts:
            yield slice(0, 0), np.zeros(0, np.int64), all_contexts - done

    def _seen_enough(self, order: int, rows: slice) -> np.ndarray:
        counts = self.grams[order - 1].counts[rows]
        return counts > self.config.threshold(order) if order > 1 else np.ones(len(counts), bool)

    def _counts_of_counts(self, adjusted: Column) -> np.ndarray:
        """How many n-grams have the count 0, 1, 2, 3, 4."""
        return sum(
            (np.bincount(np.minimum(adjusted[rows], 5), minlength=6)[:5] for rows in slices(len(adjusted), self.size)),
            np.zeros(5, np.int64),
        )

    def _pruned(self, log_probs: list[Column], backoffs: list[Column]) -> list[NGramOrder]:
        """The model without the n-grams that are not kept; the context of a kept n-gram stays."""
        # The n-grams that are left get new numbers; so each looks up the new number of its context.
        kept = self._kept()
        result: list[NGramOrder] = []
        for order, own in enumerate(self.grams, 1):
            grams = [self.columns(dtype) for dtype in (np.int64, np.int64, np.float64, np.float64)]
            done, number = 0, 0  # contexts processed, and the number of them that are kept
            for rows, context, contexts in self._families(order):
                keep = kept[order - 1][rows]
                numbers = np.zeros(1, np.int64)
                if order > 1:
                    numbers = number + np.cumsum(kept[order - 2][done : done + contexts]) - 1
                    done, number = done + contexts, int(numbers[-1]) + 1
                columns = (
                    numbers[context],
                    own.keys[rows] & WORD_MASK,
                    log_probs[order - 1][rows],
                    backoffs[order - 1][rows],
                )
                for column, values in zip(grams, columns, strict=True):
                    column.append(values[keep])
            result.append(NGramOrder(*(column[:] for column in grams)))
        return result

    def _kept(self) -> list[Column]:
        """For each order, whether each n-gram occurs often enough, or begins an n-gram that is kept."""
        kept: list[Column] = []
        needed: Column | None = None
        for order in range(len(self.grams), 0, -1):
            kept.insert(0, self.columns(np.bool_))
            needed_below = self.columns(np.bool_)
            for rows, context, contexts in self._families(order):
                keep = self._seen_enough(order, rows)
                keep = keep | needed[rows] if needed is not None else keep
                kept[0].append(keep)
                needed_below.append(np.bincount(context[keep], minlength=contexts) > 0)
            needed = needed_below
        return kept


def _discounts(counts: np.ndarray) -> np.ndarray:
    """D(0) = 0, D(1), D(2), D(3 and more), by Chen and Goodman (1999), equation 26; `counts` of counts 0 to 4."""
    n = counts.astype(np.float64)
    if n[1:].min() == 0:
        return FALLBACK
    y = n[1] / (n[1] + 2 * n[2])
    discounts = np.array([0.0] + [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)])
    return discounts if (discounts[1:] > 0).all() and (discounts <= np.arange(4)).all() else FALLBACK


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, 1e-300))
