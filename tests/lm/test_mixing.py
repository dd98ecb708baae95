"""Static interpolation of n-gram models against arithmetic, kenlm's scores of the parts, and normalisation."""

import itertools
import math
from pathlib import Path

import kenlm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lm.test_ngram import corpus

from ds2.lm.arpa import write_arpa
from ds2.lm.backoff import with_backoffs
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.mixing import best_weights, mix, word_probabilities
from ds2.lm.ngram import NGram
from ds2.lm.orders import NGramOrder
from ds2.utils.errors import InputError

Model = tuple[list[str], list[NGramOrder]]
SENTENCES = st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=12)


def float64(model: Model) -> NGram:
    return NGram.from_orders(*model, np.float64)


def ngrams(model: Model) -> list[dict[tuple[str, ...], tuple[float, float]]]:
    """For each order: n-gram -> (log-probability, back-off weight)."""
    words, orders = model
    result, texts = [], [()]
    for grams in orders:
        texts = [(*texts[prefix], words[word]) for prefix, word in zip(grams.prefix, grams.word, strict=True)]
        values = zip(grams.log_prob.tolist(), grams.backoff.tolist(), strict=True)
        result.append(dict(zip(texts, values, strict=True)))
    return result


def state_behind(model: NGram, words: tuple[str, ...]) -> int:
    state = 0
    for word in words:
        _, state = model.advance(state, word)
    return state


def assert_normalized(model: Model, tolerance: float = 1e-12) -> None:
    """Checks every context of the model, and the empty one."""
    automaton = float64(model)
    contexts = [gram for grams in ngrams(model)[:-1] for gram in grams if gram[-1] != "</s>"]
    words = [word for word in automaton.words if word != "<s>"]
    for context in [(), *contexts]:
        state = state_behind(automaton, context)
        total = sum(math.exp(automaton.advance(state, word)[0]) for word in words)
        assert total == pytest.approx(1.0, abs=tolerance), context


def two_models(order: int = 3) -> list[Model]:
    """Two models of texts with partly different words."""
    first, second = (
        corpus(60, 12, seed=1),
        [[f"x{word}" if word == "w3" else word for word in s] for s in corpus(40, 9)],
    )
    return [estimate(first, EstimateConfig(order)), estimate(second, EstimateConfig(order))]


def test_two_unigram_models_by_hand() -> None:
    numbers, zeros = np.arange(3), np.zeros(3)
    first = ["<unk>", "</s>", "a"], [NGramOrder(zeros.astype(int), numbers, np.log([0.2, 0.3, 0.5]), zeros)]
    second = ["<unk>", "</s>", "b"], [NGramOrder(zeros.astype(int), numbers, np.log([0.1, 0.1, 0.8]), zeros)]
    words, [grams] = mix([first, second], [0.25, 0.75])
    assert words == ["<unk>", "</s>", "a", "b"]
    assert np.exp(grams.log_prob) == pytest.approx([0.125, 0.15, 0.125, 0.6])


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_model_mixed_with_nothing_is_itself(order: int) -> None:
    model = estimate(corpus(80, 10), EstimateConfig(order))
    mixed = mix([model], [1.0])
    assert mixed[0] == model[0]
    for own, expected in zip(ngrams(mixed), ngrams(model), strict=True):
        assert own.keys() == expected.keys()
        for gram, (log_prob, backoff) in own.items():
            assert log_prob == pytest.approx(expected[gram][0], abs=1e-9), gram
            assert backoff == pytest.approx(expected[gram][1], abs=1e-6), gram


@pytest.mark.parametrize("order", [2, 3])
def test_an_n_gram_has_the_weighted_sum_of_what_kenlm_says_of_the_parts(tmp_path: Path, order: int) -> None:
    models, weights, theirs = two_models(order), (0.3, 0.7), []
    for number, model in enumerate(models):
        write_arpa(tmp_path / f"{number}.arpa", *model)
        theirs.append(kenlm.Model(str(tmp_path / f"{number}.arpa")))
    mixed = ngrams(mix(models, weights))
    assert [set(grams) for grams in mixed] == [set().union(*grams) for grams in zip(*map(ngrams, models), strict=True)]
    for gram in itertools.chain(*mixed):
        if gram[-1] != "<s>":
            parts = [weight * kenlm_probability(model, gram) for weight, model in zip(weights, theirs, strict=True)]
            assert mixed[len(gram) - 1][gram][0] == pytest.approx(math.log(sum(parts)), abs=1e-4), gram


def kenlm_probability(model: kenlm.Model, gram: tuple[str, ...]) -> float:
    """The probability of the last word after the others; 0 if the model does not know the word."""
    if gram[-1] not in model and gram[-1] != "<unk>":
        return 0.0
    state, behind = kenlm.State(), kenlm.State()
    *context, word = gram
    if context[:1] == ["<s>"]:
        model.BeginSentenceWrite(state)
        context = context[1:]
    else:
        model.NullContextWrite(state)
    for each in context:
        model.BaseScore(state, each, behind)
        state, behind = behind, state
    return float(10 ** model.BaseScore(state, word, behind))


@pytest.mark.parametrize("prune", [(), (0, 1), (0, 0, 1)])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_mixture_sums_to_one(order: int, prune: tuple[int, ...]) -> None:
    models = [estimate(corpus(50, 8, seed), EstimateConfig(order, prune)) for seed in (1, 2)]
    assert_normalized(mix([*models, estimate(corpus(30, 12), EstimateConfig(2))], [0.2, 0.5, 0.3]))


@settings(max_examples=60)
@given(SENTENCES, st.lists(st.lists(st.sampled_from("cdef"), max_size=5), min_size=1, max_size=9), st.data())
def test_any_two_texts_give_a_distribution(first: list, second: list, data: st.DataObject) -> None:
    orders = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    weight = data.draw(st.floats(0.01, 0.99))
    models = [estimate(text, EstimateConfig(order)) for text, order in zip((first, second), orders, strict=True)]
    mixed = mix(models, [weight, 1 - weight])
    assert len(mixed[1]) == max(orders)
    assert_normalized(mixed, 1e-9)


def test_back_off_weights_follow_from_the_probabilities() -> None:
    words, orders = estimate(corpus(60, 10), EstimateConfig(3))
    spoilt = [NGramOrder(grams.prefix, grams.word, grams.log_prob, grams.backoff + 1.0) for grams in orders]
    for own, expected in zip(with_backoffs(words, spoilt), orders, strict=True):
        assert own.backoff == pytest.approx(expected.backoff, abs=1e-6)


@pytest.mark.parametrize("weights", [(1.0,), (0.5, 0.6), (0.0, 1.0)])
def test_impossible_weights_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights that sum to 1"):
        mix(two_models(), weights)


def test_em_finds_the_weights_of_the_text_that_it_is_given() -> None:
    """The words are drawn from two known distributions, 3 to 1; no other weights make them more probable."""
    rng = np.random.default_rng(0)
    distributions = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.1, 0.2, 0.6]])
    text = rng.choice(4, 20_000, p=[0.75, 0.25] @ distributions)
    weights = best_weights(distributions[:, text].T)
    assert weights == pytest.approx([0.75, 0.25], abs=0.02)
    best = np.log(distributions[:, text].T @ weights).sum()
    for first in np.linspace(0.01, 0.99, 50):
        assert np.log(distributions[:, text].T @ [first, 1 - first]).sum() <= best + 1e-6


def test_weights_favour_the_model_of_the_same_kind_of_text() -> None:
    models = [float64(model) for model in two_models()]
    probabilities = word_probabilities(models, corpus(20, 12, seed=7))
    assert best_weights(probabilities)[0] > 0.8
    assert np.log(probabilities[:3, 0]).sum() == pytest.approx(
        models[0].score(corpus(20, 12, seed=7)[0][:3], end=False), abs=1e-9
    )


def test_text_that_no_model_knows_is_refused() -> None:
    with pytest.raises(InputError, match="know no word"):
        best_weights(np.zeros((3, 2)))
