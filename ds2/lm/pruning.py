"""Makes an n-gram model smaller by relative entropy (Stolcke 1998): the n-grams that change it least go first.

Without the n-gram h w its context h backs off for w, with a weight that grows a little:

    backoff'(h) = (left(h) + p(w | h)) / (left_below(h) + p(w | h'))          h' is h without its first word
    loss(h w) = p(h) (p(w | h) log(p(w | h) / (backoff'(h) p(w | h'))) + left(h) log(backoff(h) / backoff'(h)))

left(h) is the probability that the n-grams of h leave to other words; left_below(h) is what h' leaves to those. The
loss is the relative entropy between the model before and after; exp(loss) - 1 is the relative rise of its perplexity.
"""

from collections.abc import Sequence

import numpy as np

from ds2.lm.backoff import LITTLE, advance_all, left, shorter_log_probs, with_backoffs
from ds2.lm.ngram import NGram
from ds2.lm.orders import BEGIN, END, UNKNOWN, NGramOrder
from ds2.lm.packed import ROOT


def prune(
    words: Sequence[str], orders: Sequence[NGramOrder], threshold: float, most: int = 0, histories: NGram | None = None
) -> list[NGramOrder]:
    """The n-grams whose removal would raise the perplexity by at least `threshold`, relatively; all single words stay.

    An n-gram also stays while a longer one that begins with it stays.

    Args:
        most: the largest number of n-grams of all orders that may stay; 0: all that the threshold leaves.
        histories: see `perplexity_rises`.
    """
    rises = [np.full(len(orders[0].word), np.inf), *perplexity_rises(words, orders, histories)]
    # A limit on the number raises the threshold: just above the largest rise for which there is no place.
    if 0 < most < sum(map(len, rises)):
        largest = np.sort(np.concatenate(rises))[::-1]
        threshold = max(threshold, float(np.nextafter(largest[most], np.inf)))
    kept = [rise >= threshold for rise in rises]
    result = [orders[0]]
    for grams, shorter, keep in zip(orders[1:], kept, kept[1:], strict=False):
        if keep.any():
            # An n-gram names its context by its number, and the contexts that stay get new ones.
            numbers = np.cumsum(shorter) - 1
            result.append(
                NGramOrder(numbers[grams.prefix[keep]], grams.word[keep], grams.log_prob[keep], grams.backoff[keep])
            )
    return with_backoffs(words, result)


def perplexity_rises(
    words: Sequence[str], orders: Sequence[NGramOrder], histories: NGram | None = None
) -> list[np.ndarray]:
    """The relative rise of the perplexity if an n-gram, or a longer one that needs it, is removed.

    Returns (K,) rises for each order from 2 on.

    Args:
        histories: the model that gives the probabilities of contexts, in place of this one. Kneser-Ney's short n-grams
            do not give them: they have the probabilities of what the longer ones have not seen (Chelba, Brants, Neveitt
            and Xu 2010).
    """
    contexts, rises = _contexts(words, orders, histories), []
    for order, context in enumerate(contexts, 1):
        # The n-grams of an order are judged as if there were no longer ones.
        losses = _losses(words, orders[: order + 1])
        rises.append(np.expm1(np.exp(context[orders[order].prefix]) * losses))
    # A longer n-gram needs the one that it begins with, which is therefore worth as much; from the longest ones down.
    for own, longer, grams in zip(rises[-2::-1], rises[:0:-1], orders[:1:-1], strict=True):
        np.maximum.at(own, grams.prefix, longer)
    return rises


def _contexts(words: Sequence[str], orders: Sequence[NGramOrder], histories: NGram | None) -> list[np.ndarray]:
    """(K,) log-probability of each n-gram of each order but the highest, by the chain rule; <s> has that of </s>."""
    model = histories or NGram.from_orders(words, orders, np.float64)
    unknown = model.index.get(UNKNOWN, ROOT)
    numbers = np.array([model.index.get(word, unknown) for word in words])
    result: list[np.ndarray] = []
    states, total = np.full(1, ROOT), np.zeros(1)
    for grams in orders[:-1]:
        log_probs, following = advance_all(model, states[grams.prefix], numbers[grams.word])
        # <s> is never predicted, but there are as many of them as ends of sentences.
        if not result and {BEGIN, END} <= set(words):
            log_probs[words.index(BEGIN)] = log_probs[words.index(END)]
        total, states = total[grams.prefix] + log_probs, following
        result.append(total)
    return result


def _losses(words: Sequence[str], orders: Sequence[NGramOrder]) -> np.ndarray:
    """(K,) relative entropy between the distributions after a context, with and without each top n-gram."""
    contexts, grams = len(orders[-2].word), orders[-1]
    shorter = shorter_log_probs(words, orders)
    own, own_shorter = np.exp(grams.log_prob), np.exp(shorter)
    rest = np.maximum(left(grams.prefix, own, contexts), LITTLE)[grams.prefix]
    rest_shorter = np.maximum(left(grams.prefix, own_shorter, contexts), LITTLE)[grams.prefix]
    # The back-off weight of the context with the n-gram and without it, and the relative entropy between the two.
    before, after = np.log(rest / rest_shorter), np.log((rest + own) / (rest_shorter + own_shorter))
    losses: np.ndarray = own * (grams.log_prob - shorter - after) + rest * (before - after)
    return np.maximum(losses, 0.0)
