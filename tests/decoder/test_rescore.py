"""Rescoring of n-best hypotheses."""

import pytest

from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.rescore import Rescorer
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram


def test_acoustics_stay_and_the_language_model_is_replaced() -> None:
    lm = NGram.from_orders(*estimate([["a", "b"], ["a", "b"], ["b"]], EstimateConfig(2)))
    first, second = Hypothesis((1,), score=-1.0, gains=-0.5), Hypothesis((2, 3), score=-1.2, gains=-0.9)
    sentences = [[["b"], ["a", "b"]], [], [["a", "b"]]]
    [found, none, alone] = Rescorer(lm, 2.0, 0.25)([[first, second], [], [second]], sentences)
    expected = {(1,): -0.5 + 2 * lm.score(["b"]) + 0.25, (2, 3): -0.3 + 2 * lm.score(["a", "b"]) + 0.5}
    assert {hypothesis.tokens: hypothesis.score for hypothesis in found} == pytest.approx(expected)
    assert [hypothesis.tokens for hypothesis in found] == [(2, 3), (1,)]
    assert found[0].score - found[0].gains == pytest.approx(-0.3)
    assert (none, alone) == ([], found[:1])


def test_a_second_model_is_added_to_the_search() -> None:
    lm = NGram.from_orders(*estimate([["a", "b"], ["a", "b"], ["b"]], EstimateConfig(2)))
    hypothesis = Hypothesis((2, 3), score=-1.2, gains=-0.9)
    [[found]] = Rescorer(lm, 0.5, 0.25, kept=1.0)([[hypothesis]], [[["a", "b"]]])
    assert found.score == pytest.approx(-1.2 + 0.5 * lm.score(["a", "b"]) + 0.5)
    assert found.score - found.gains == pytest.approx(-0.3)


def test_hot_words_keep_what_they_have_gained() -> None:
    lm = NGram.from_orders(*estimate([["a", "b"], ["a", "b"], ["b"]], EstimateConfig(2)))
    hypothesis = Hypothesis((2, 3), score=-1.2, gains=4.1, boosts=5.0)
    [[found]] = Rescorer(lm, 0.5, 0.25, kept=0.5)([[hypothesis]], [[["a", "b"]]])
    assert found.gains == pytest.approx(5.0 - 0.5 * 0.9 + 0.5 * lm.score(["a", "b"]) + 0.5)
    assert found.score == pytest.approx(-5.3 + found.gains)


def test_nothing_to_rescore() -> None:
    lm = NGram.from_orders(*estimate([["a"]], EstimateConfig(1)))
    assert Rescorer(lm, 1.0, 0.0)([], []) == []
