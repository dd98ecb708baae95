"""Confidence of words, by hand."""

import math

import pytest

from ds2.recognition.confidence import geometric_mean, posteriors
from ds2.recognition.transcript import Word


def test_geometric_mean() -> None:
    assert geometric_mean([0.9, 0.4]) == pytest.approx(0.6)
    assert geometric_mean([0.0]) == pytest.approx(1e-9)


def test_the_posterior_of_a_word_is_the_share_of_the_rows_that_have_it_there() -> None:
    one, two, late = Word("a", 0.0, 0.5, 1.0), Word("b", 0.5, 1.0, 1.0), Word("b", 3.0, 3.5, 1.0)
    near = Word("b", 0.9, 1.4, 1.0)
    rows = [(one, two, late), (one, late), (near,)]
    scores = [math.log(0.5), math.log(0.3), math.log(0.2)]
    assert posteriors(rows, scores) == pytest.approx([0.8, 0.7, 0.8])


def test_an_hour_of_words_is_not_compared_word_by_word() -> None:
    """An hour of one repeated word; comparing every pair would take minutes."""
    row = tuple(Word("a", 0.25 * n, 0.25 * n + 0.2, 1.0) for n in range(15_000))
    shifted = tuple(Word("a", word.start + 0.1, word.end + 0.1, 1.0) for word in row)
    assert posteriors([row, *[shifted] * 9], [0.0] * 10) == pytest.approx([1.0] * len(row))
