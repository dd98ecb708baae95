"""Entropy pruning against its definition, summed over the vocabulary, and normalisation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lm.test_mixing import SENTENCES, Model, assert_normalized, float64, ngrams, state_behind, two_models
from lm.test_ngram import corpus

from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.mixing import mix
from ds2.lm.ngram import NGram
from ds2.lm.pruning import perplexity_rises, prune

Gram = tuple[str, ...]


def relative_entropies(model: Model, histories: NGram) -> dict[Gram, float]:
    """p(h), from `histories`, times the sum over all words v of p(v | h) log(p(v | h) / p'(v | h)); p' has no h w."""
    automaton, result = float64(model), {}
    words = [word for word in automaton.words if word != "<s>"]
    tables = ngrams(model)
    for grams in tables[1:]:
        for gram in grams:
            *context, lost = gram
            here, shorter = (
                {word: math.exp(automaton.advance(state_behind(automaton, tuple(h)), word)[0]) for word in words}
                for h in (context, context[1:])
            )
            listed = {other[-1] for other in grams if list(other[:-1]) == context} - {lost}
            backoff = (1 - sum(here[w] for w in listed)) / (1 - sum(shorter[w] for w in listed))
            without = {word: here[word] if word in listed else backoff * shorter[word] for word in words}
            divergence = sum(here[word] * math.log(here[word] / without[word]) for word in words)
            result[gram] = context_probability(histories, context) * divergence
    return result


def context_probability(model: NGram, context: list[str]) -> float:
    """The chain rule; <s> is as probable as </s>."""
    first = "</s>" if context[0] == "<s>" else context[0]
    total, state = model.advance(0, first)[0], model.advance(0, context[0])[1]
    for word in context[1:]:
        log_prob, state = model.advance(state, word)
        total += log_prob
    return math.exp(total)


def rises(model: Model, histories: NGram | None = None) -> dict[Gram, float]:
    values = perplexity_rises(*model, histories)
    return {
        gram: value
        for own, grams in zip(values, ngrams(model)[1:], strict=True)
        for gram, value in zip(grams, own, strict=True)
    }


def small_models() -> list[Model]:
    return [estimate(corpus(15, 7), EstimateConfig(3)), mix(two_models(2), [0.4, 0.6])]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("own", [True, False])
def test_the_rise_of_perplexity_is_that_of_the_definition(number: int, own: bool) -> None:
    """An n-gram that longer ones begin with has the largest of their rises, if that is larger than its rise."""
    model = small_models()[number]
    other = NGram.from_orders(*estimate(corpus(25, 6), EstimateConfig(2, continuation=False)), np.float64)
    entropies = relative_entropies(model, float64(model) if own else other)
    expected = {gram: math.expm1(value) for gram, value in entropies.items()}
    for gram, value in rises(model, None if own else other).items():
        needed = [longer for longer in expected if longer[: len(gram)] == gram]
        assert value == pytest.approx(max(expected[longer] for longer in needed), rel=1e-6, abs=1e-12), gram


@pytest.mark.parametrize("threshold", [0.0, 1e-4, 1e-3, 0.1])
def test_what_is_below_the_threshold_goes_and_all_else_stays_as_it_was(threshold: float) -> None:
    model = estimate(corpus(40, 9), EstimateConfig(4))
    before, after = ngrams(model), ngrams((model[0], prune(*model, threshold)))
    kept = {gram for gram, value in rises(model).items() if value >= threshold}
    assert {gram for grams in after[1:] for gram in grams} == kept
    assert after[0].keys() == before[0].keys()
    for grams in after:
        for gram, (log_prob, _) in grams.items():
            assert log_prob == before[len(gram) - 1][gram][0]


def test_pruning_nothing_is_the_model_itself() -> None:
    model = estimate(corpus(40, 9), EstimateConfig(3))
    for own, expected in zip(prune(*model, 0.0), model[1], strict=True):
        assert np.array_equal(own.prefix, expected.prefix)
        assert np.array_equal(own.word, expected.word)
        assert own.backoff == pytest.approx(expected.backoff, abs=1e-6)


@pytest.mark.parametrize("most", [1, 30, 100, 10**6])
def test_a_number_of_n_grams_is_not_exceeded(most: int) -> None:
    words, orders = estimate(corpus(40, 9), EstimateConfig(3))
    total, pruned = sum(len(grams.word) for grams in orders), prune(words, orders, 0.0, most)
    assert_normalized((words, pruned), 1e-9)
    kept = sum(len(grams.word) for grams in pruned)
    assert kept <= max(most, len(words))
    assert kept >= min(total, max(most, len(words))) - 5  # n-grams with equal loss are removed together


@settings(max_examples=60)
@given(SENTENCES, st.integers(2, 4), st.floats(0, 0.05))
def test_any_pruned_model_is_a_distribution(sentences: list, order: int, threshold: float) -> None:
    words, orders = estimate(sentences, EstimateConfig(order))
    assert_normalized((words, prune(words, orders, threshold)), 1e-9)


def test_a_mixture_of_pruned_models_is_a_distribution() -> None:
    """A pruned model may lack the shorter n-gram that a longer one ends in."""
    pruned = [(words, prune(words, orders, 1e-3)) for words, orders in two_models()]
    assert_normalized(mix(pruned, [0.5, 0.5]), 1e-9)


def test_the_least_harmful_half_costs_less_than_rare_n_grams_do() -> None:
    text, held_out = corpus(400, 20), corpus(100, 20, seed=5)
    words, orders = estimate(text, EstimateConfig(3))
    by_count = estimate(text, EstimateConfig(3, (0, 1, 2)))
    by_entropy = words, prune(words, orders, 0.0, sum(len(grams.word) for grams in by_count[1]))
    score = {name: sum(map(float64(m).score, held_out)) for name, m in (("count", by_count), ("entropy", by_entropy))}
    assert score["entropy"] > score["count"]
