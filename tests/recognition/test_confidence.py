"""Confidence of words, by hand."""

import math

import pytest

from ds2.recognition.confidence import MOST_MARGIN, geometric_mean, margins, posteriors, presence


def test_geometric_mean() -> None:
    assert geometric_mean([0.9, 0.4]) == pytest.approx(0.6)
    assert geometric_mean([0.0]) == pytest.approx(1e-9)


def test_words_are_compared_with_those_of_the_other_hypotheses_at_their_places() -> None:
    one, two, late, near = ("a", 0, 5), ("b", 5, 10), ("b", 30, 35), ("b", 9, 14)
    rows = [(one, two, late), (one, late), (near,)]
    scores = [math.log(0.5), math.log(0.3), math.log(0.2)]
    present = presence(rows)
    assert present.tolist() == [[True, True, True], [True, False, True], [False, True, False]]
    assert posteriors(present, scores) == pytest.approx([0.8, 0.7, 0.8])
    assert margins(present, scores) == pytest.approx([math.log(2.5), math.log(5 / 3), math.log(2.5)])
    assert margins(present[:1], scores[:1]).tolist() == [MOST_MARGIN] * 3


def test_an_hour_of_words_is_not_compared_word_by_word() -> None:
    """An hour of one repeated word; comparing every pair would take minutes."""
    row = [("a", 25 * n, 25 * n + 20) for n in range(15_000)]
    shifted = [(text, start + 10, end + 10) for text, start, end in row]
    assert presence([row, *[shifted] * 9]).all()
