"""Calibrated confidence: the fit, its figures, and what is no speech."""

import dataclasses
import math

import numpy as np
import pytest

from ds2.decoder.hypothesis import Hypothesis
from ds2.recognition.calibration import (
    WEIGHTS,
    Calibration,
    Judge,
    area_under_roc,
    calibration_error,
    fit,
    only_speech,
    reliability,
)
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word
from ds2.text import BLANK_TOKEN, Tokenizer
from ds2.utils.errors import InputError


def test_calibration_error_and_area_by_hand() -> None:
    confidences, right = [0.15, 0.15, 0.85, 0.85], [False, True, True, True]
    assert reliability(confidences, right) == [(0.15, 0.5, 2), (0.85, 1.0, 2)]
    assert calibration_error(confidences, right) == pytest.approx((0.35 + 0.15) / 2)
    assert area_under_roc(confidences, right) == pytest.approx((1 + 1 + 0.5) / 3)
    assert calibration_error([], []) == 0.0
    assert math.isnan(area_under_roc([0.5], [True]))


def test_the_fit_finds_the_probability_that_made_the_words() -> None:
    random = np.random.default_rng(0)
    evidence = np.zeros((4000, WEIGHTS))
    evidence[:, 3] = random.normal(2.0, 5.0, 4000)
    truth = 1 / (1 + np.exp(-(0.8 * evidence[:, 3] - 1)))
    right = random.random(4000) < truth
    calibration = fit(evidence, right)
    assert np.abs(calibration(evidence) - truth).max() < 0.05
    assert calibration.weights[0] == 0.0  # what never changes gets no weight
    with pytest.raises(InputError, match="right words and wrong ones"):
        fit(evidence, np.ones(4000, bool))


def test_a_damaged_calibration_is_refused() -> None:
    for weights, bias in (((0.0,), 0.0), ((math.nan,) * WEIGHTS, 0.0), ((0.0,) * WEIGHTS, math.inf)):
        with pytest.raises(InputError, match="calibrate it again"):
            Calibration(weights, bias)


def test_segments_of_doubtful_words_are_no_speech() -> None:
    """The doubtful word in a trusted segment stays; the segment after the pause goes."""
    words = (Word("a", 0.0, 0.4, 0.9), Word("b", 0.5, 0.9, 0.1), Word("c", 2.0, 2.4, 0.2))
    transcript = Transcript("a b c", words, 3.0)
    assert only_speech(transcript, 0.3) == Transcript("a b", words[:2], 3.0)
    assert only_speech(transcript, 0.1) is transcript
    assert only_speech(transcript, 0.95).text == ""
    spoken = tuple(Word(text, start, start + 0.2, 0.9) for text, start in (("我", 0.0), ("去", 2.0), ("的", 4.0)))
    other = (*spoken[:2], dataclasses.replace(spoken[2], confidence=0.1))
    assert only_speech(Transcript("我去的", other, 5.0), 0.5).text == "我去"


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, -1e7])
def test_weights_that_make_no_probability_are_refused(value: float) -> None:
    """With 1e308 and -1e308 a confidence would be NaN, which is not JSON."""
    with pytest.raises(InputError, match="calibrate it again"):
        Calibration((value, *[0.0] * (WEIGHTS - 1)), 0.0)
    with pytest.raises(InputError, match="calibrate it again"):
        Calibration((0.0,) * WEIGHTS, value)


def test_scores_of_biphones_are_no_evidence() -> None:
    """The entropy of phones is that of the P columns behind those of the tokens, whatever follows them."""
    tokens, hypothesis = Tokenizer([BLANK_TOKEN, " ", "a"]), Hypothesis((2,), (1,), (2,), (0.8,))
    transcript, margin = Transcript("a", (Word("a", 0.0, 0.1, 0.9),), 0.2), np.array([1.0])
    rows = np.log(np.full((4, 3 + 2 + 1), 0.5))
    judge = Judge(Calibration((0.0,) * WEIGHTS, 0.0), tokens, 2, None)
    found = [judge.evidence(transcript, hypothesis, margin, each) for each in (rows, rows[:, :5])]
    assert np.array_equal(*found)
