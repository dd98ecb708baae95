"""The evidence for words, by hand."""

import numpy as np
import pytest

from ds2.decoder.hypothesis import Hypothesis
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.recognition.evidence import FEATURES, WORST_SPELLING, Found, lm_scores, spelling_scores, word_evidence

LOG_PROBS = np.log(np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [0.8, 0.1, 0.1]]))


def test_a_word_on_the_best_path_loses_nothing_and_another_one_does() -> None:
    right, wrong = spelling_scores(LOG_PROBS, [(1, 4), (1, 4)], [[1, 2], [2, 2]])
    assert right == pytest.approx(0.0)
    assert wrong == pytest.approx(np.log(0.1 / 0.8) / 2)
    assert spelling_scores(LOG_PROBS[:1], [(0, 1)], [[1, 2, 1, 2]]).tolist() == [WORST_SPELLING]


def test_each_word_has_its_own_evidence_and_that_of_its_neighbours() -> None:
    hypothesis = Hypothesis((1, 2), (1, 3), (2, 4), (0.8, 0.7))
    found = Found(hypothesis, ["a", "b"], [(0, 1), (1, 2)], [[1], [2]], [0.9, 0.5], [6.0, 0.1])
    phones = np.log(np.full((5, 2), 0.5))
    rows = word_evidence(found, LOG_PROBS, phones, None)
    size = len(FEATURES)
    assert rows.shape == (2, 4 * size)
    own, before, after, around = rows[0].reshape(4, size)
    assert own[FEATURES.index("peak")] == pytest.approx(np.log(0.8))
    assert own[FEATURES.index("share")] == pytest.approx(np.log(9))
    assert own[FEATURES.index("margin")] == 6.0
    assert own[FEATURES.index("phone_entropy")] == pytest.approx(np.log(2))
    assert own[FEATURES.index("labels")] == 1
    assert (before == own).all()
    assert (after == rows[1, :size]).all()
    assert around == pytest.approx((own + after) / 2)
    assert word_evidence(Found(Hypothesis(), [], [], [], [], []), LOG_PROBS, phones, None).shape == (0, 4 * size)


def test_the_language_model_speaks_for_likely_words() -> None:
    lm = NGram.from_orders(*estimate([["a", "b"], ["a", "b"], ["a", "c"]], EstimateConfig(2)))
    [of_a, of_b], [after_a, _], [alone_a, alone_b] = lm_scores(["a", "b"], lm)
    assert of_b == after_a
    assert of_a > of_b
    assert alone_a < of_a
    assert alone_b < of_b
    assert lm_scores(["a"], None) == [[0.0]] * 3
