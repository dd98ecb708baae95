"""Mixes n-gram models into one: static linear interpolation, like SRILM's `ngram -mix-lm` (Stolcke 2002).

The mixture holds the n-grams of all models. Each has the probability

    p(w | h) = sum over the models of weight * p_model(w | h),      a model that lacks the n-gram backs off

and the back-off weights are computed so that it sums to 1. A model gives no probability to a word that it does not
know, and reads such a word in a context as <unk>. EM finds the weights that make a text most probable.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from ds2.lm.backoff import advance_all, with_backoffs
from ds2.lm.ngram import NGram
from ds2.lm.orders import END, UNKNOWN, WORD_BITS, NGramOrder
from ds2.lm.packed import ROOT
from ds2.utils.errors import InputError

ROUNDS = 1000  # largest number of EM iterations
SETTLED = 1e-7  # change of a weight at which EM ends
WORD_MASK = (1 << WORD_BITS) - 1
SMALLEST = 1e-300


def best_weights(probabilities: np.ndarray) -> np.ndarray:
    """(M,) weights of M distributions whose mixture gives N words with (N, M) probabilities the highest product.

    Words that no distribution knows do not count.

    Raises:
        InputError: no distribution knows any of the words.
    """
    probabilities = probabilities[probabilities.any(1)]
    if not len(probabilities):
        raise InputError("the models know no word of the text that their weights are to be found on")
    weights = np.full(probabilities.shape[1], 1.0 / probabilities.shape[1])
    for _ in range(ROUNDS):
        joint = probabilities * weights
        better = (joint / joint.sum(1, keepdims=True)).mean(0)
        settled = np.abs(better - weights).max() < SETTLED
        weights = better
        if settled:
            break
    return weights


def word_probabilities(models: Sequence[NGram], sentences: Iterable[Sequence[str]]) -> np.ndarray:
    """(N, M) probability of each word and sentence end in each of M models; 0 if a model does not know the word."""
    rows = []
    for sentence in sentences:
        states = [model.start for model in models]
        for word in [*sentence, END]:
            answers = [model.advance(state, word) for model, state in zip(models, states, strict=True)]
            states = [state for _, state in answers]
            rows.append(
                [answer[0] if model.knows(word) else -np.inf for model, answer in zip(models, answers, strict=True)]
            )
    return np.exp(np.array(rows).reshape(len(rows), len(models)))


def mix(
    models: Sequence[tuple[Sequence[str], Sequence[NGramOrder]]], weights: Sequence[float]
) -> tuple[list[str], list[NGramOrder]]:
    """The words, <unk> first, and n-grams of the mixture of models, which are given in the same form.

    Raises:
        ValueError: a weight is not positive, the weights do not sum to 1, or there is not one for each model.
    """
    if len(weights) != len(models) or min(weights) <= 0 or abs(sum(weights) - 1) > 1e-6:
        raise ValueError(f"{len(models)} models need as many positive weights that sum to 1, got {list(weights)}")
    words = [UNKNOWN, *sorted({word for words, _ in models for word in words} - {UNKNOWN})]
    # The mixture has each n-gram that one of the models has.
    keys = union([(_places_of_words(own, words), orders) for own, orders in models], len(words))
    probabilities = [np.zeros(len(grams)) for grams in keys]
    for (own, orders), weight in zip(models, weights, strict=True):
        # A model scores all of them, also those that it has not itself, order by order from the states of the order
        # below.
        model, states = NGram.from_orders(own, orders, np.float64), np.full(1, ROOT, np.int32)
        numbers = np.array([model.index.get(word, model.index.get(UNKNOWN, ROOT)) for word in words], np.int32)
        known = np.array([word in model.index for word in words])
        for grams, total in zip(keys, probabilities, strict=True):
            word = grams & WORD_MASK
            scores, states = advance_all(model, states[grams >> WORD_BITS], numbers[word])
            total += weight * known[word] * np.exp(scores)
    # The back-off weights follow from the probabilities.
    log_probs = [np.log(np.maximum(total, SMALLEST)) for total in probabilities]
    mixed = [
        NGramOrder(grams >> WORD_BITS, grams & WORD_MASK, log_prob, np.zeros(len(grams)))
        for grams, log_prob in zip(keys, log_probs, strict=True)
    ]
    return words, with_backoffs(words, mixed)


def union(models: Sequence[tuple[np.ndarray, Sequence[NGramOrder]]], words: int) -> list[np.ndarray]:
    """The keys of all models' n-grams, for each order: place of the prefix in the order below << WORD_BITS | word.

    Args:
        models: for each model (W,) new numbers of its words, and its n-grams.
        words: the number of words in all.
    """
    keys = [np.arange(words)]
    places = [numbers for numbers, _ in models]  # places of each model's n-grams among those of all models
    for order in range(1, max(len(orders) for _, orders in models)):
        own = [
            place[orders[order].prefix] << WORD_BITS | numbers[orders[order].word]
            if order < len(orders)
            else np.zeros(0, np.int64)
            for place, (numbers, orders) in zip(places, models, strict=True)
        ]
        keys.append(np.unique(np.concatenate(own)))
        places = [np.searchsorted(keys[-1], each) for each in own]
    return keys


def _places_of_words(own: Sequence[str], words: Sequence[str]) -> np.ndarray:
    index = {word: number for number, word in enumerate(words)}
    return np.array([index[word] for word in own])
