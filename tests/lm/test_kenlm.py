"""KenLM's lmplz, where it is installed, and the built-in estimator give the same model."""

import shutil

import numpy as np
import pytest
from lm.test_ngram import corpus

from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.kenlm import estimate_by_lmplz


@pytest.mark.parametrize(("order", "prune"), [(1, ()), (3, ()), (4, (0, 0, 1)), (3, (0, 1, 2))])
def test_lmplz_and_the_built_in_estimator_give_the_same_model(order: int, prune: tuple[int, ...]) -> None:
    lmplz = shutil.which("lmplz")
    if lmplz is None:
        pytest.skip("lmplz is not installed")
    config = EstimateConfig(order, prune, memory=100)
    words, orders = estimate(corpus(2000, 100), config)
    their_words, their_orders = estimate_by_lmplz(lmplz, corpus(2000, 100), config)
    assert sorted(their_words) == sorted(words)
    for own, theirs in zip(scores(words, orders), scores(their_words, their_orders), strict=True):
        assert own.keys() == theirs.keys()
        for gram, values in own.items():
            assert values == pytest.approx(theirs[gram], abs=2e-5)


def scores(words: list[str], orders: list) -> list[dict[tuple[str, ...], np.ndarray]]:
    """For each order: n-gram -> (log-probability, back-off)."""
    result, prefixes = [], [()]
    for grams in orders:
        pairs = zip(grams.prefix, grams.word, strict=True)
        prefixes = [(*prefixes[prefix], words[word]) for prefix, word in pairs]
        values = np.stack([grams.log_prob, grams.backoff], 1)
        result.append({gram: row for gram, row in zip(prefixes, values, strict=True) if gram != ("<s>",)})
    return result
