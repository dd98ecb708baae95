"""Operations on all n-grams of a model at once: their scores, and the back-off weights by which they sum to 1."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ds2.lm.automaton import advance, unpacked
from ds2.lm.ngram import NGram
from ds2.lm.orders import NGramOrder
from ds2.utils.jit import compiled

LITTLE = 1e-12  # remaining probability that is only a rounding error, where there is no word to give it to


@compiled
def _advance_all(automaton, states, words, log_probs, following):  # type: ignore[no-untyped-def]
    for place in range(len(words)):
        log_probs[place], following[place] = advance(automaton, states[place], words[place])


def advance_all(model: NGram, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) float64 log-probabilities of (N,) word numbers in (N,) states; (N,) the states that follow."""
    log_probs, following = np.empty(len(words)), np.empty(len(words), np.int32)
    _advance_all(model.automaton, states, words, log_probs, following)
    return log_probs, following


def shorter_log_probs(words: Sequence[str], orders: Sequence[NGramOrder]) -> np.ndarray:
    """(K,) log-probabilities of the highest order's n-grams without their first word, from the orders below alone."""
    *lower, highest = orders
    model = NGram.from_orders(words, lower, np.float64)
    # The state after an n-gram of the order below is that n-gram without its first word.
    contexts = unpacked(model.automaton).next[-len(lower[-1].word) :]
    return advance_all(model, contexts[highest.prefix], highest.word)[0]


def with_backoffs(words: Sequence[str], orders: Sequence[NGramOrder]) -> list[NGramOrder]:
    """The same n-grams and probabilities, with the back-off weights by which those of each context sum to 1:

        backoff(h) = (1 - sum of p(w | h)) / (1 - sum of p(w | h without its first word)), over the w that follow h

    The weights in `orders` are ignored.
    """
    result = list(orders)
    for order in range(1, len(orders)):
        contexts, longer = result[order - 1], orders[order]
        shorter = shorter_log_probs(words, [*result[:order], longer])
        rest, rest_shorter = (left(longer.prefix, np.exp(p), len(contexts.word)) for p in (longer.log_prob, shorter))
        some = (rest > LITTLE) & (rest_shorter > LITTLE)
        backoff = np.log(np.divide(rest, rest_shorter, out=np.ones(len(rest)), where=some))
        result[order - 1] = replace(contexts, backoff=backoff)
    return [*result[:-1], replace(result[-1], backoff=np.zeros(len(result[-1].word)))]


def left(context: np.ndarray, probabilities: np.ndarray, contexts: int) -> np.ndarray:
    """(C,) the probability that the n-grams of each context leave to other words; 1 where there are none."""
    taken: np.ndarray = np.bincount(context, probabilities, contexts)
    return 1.0 - taken
