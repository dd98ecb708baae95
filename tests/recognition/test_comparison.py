"""Two transcripts of the same utterances."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts
from ds2.recognition.comparison import Comparison, better_of, compare, permutation_interval, permutation_test


def test_a_comparison_by_hand() -> None:
    """Two errors fewer in 40 words; of the signs of (-1, -2, 1) six of eight give a sum of at least 2: p = 0.75."""
    own = [ErrorCounts(1, 0, 0, 10), ErrorCounts(0, 0, 0, 10), ErrorCounts(2, 0, 0, 10), ErrorCounts(0, 3, 0, 10)]
    others = [ErrorCounts(2, 0, 0, 10), ErrorCounts(2, 0, 0, 10), ErrorCounts(0, 0, 1, 10), ErrorCounts(0, 3, 0, 10)]
    utterances = [Utterance(Path(f"{number}.wav"), 1.0, "", speaker="ab"[number // 2]) for number in range(4)]
    found = compare(utterances, own, others)
    assert (found.others.errors, found.difference) == (8, pytest.approx(-0.05))
    assert (found.fewer, found.more, found.speakers) == (2, 1, 2)
    assert found.p_utterances == 0.75
    assert found.p_speakers == 1.0  # -3 and 1: every choice of signs gives 2 or 4
    assert found.interval[0] < -0.05 < found.interval[1]
    unnamed = compare([Utterance(Path("a.wav"), 1.0, "")] * 4, own, own)
    assert (unnamed.difference, unnamed.interval, unnamed.p_utterances) == (0.0, (0.0, 0.0), 1.0)
    assert unnamed.p_speakers is None


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_the_interval_and_the_test_agree(differences: list[int]) -> None:
    """On whether a difference may be chance, and the interval has the difference in its middle."""
    values = np.array(differences)
    low, high = permutation_interval(values)
    assert (low <= 0 <= high) == (permutation_test(values) > 0.05)
    assert (low + high) / 2 == values.sum()


def test_speakers_decide_where_they_are_enough() -> None:
    counts = Comparison(ErrorCounts(), 0.1, (0.0, 0.2), 1, 2, p_utterances=0.01, p_speakers=0.2, speakers=9)
    assert counts.significant
    assert not replace(counts, speakers=10).significant
    assert not replace(counts, p_utterances=0.051, p_speakers=None).significant


def test_drawn_permutations_are_near_the_exact_probability() -> None:
    """20 of one sign: 2 of 2^20 choices are as far; 12 against 8: p = P(|B(20, 1/2) - 10| >= 2) = 0.5034."""
    assert permutation_test(np.ones(20, int)) == pytest.approx(1 / 10_001, abs=2e-4)
    assert permutation_test(np.array([1] * 12 + [-1] * 8)) == pytest.approx(0.5034, abs=0.03)


def test_the_better_of_two_people_counts() -> None:
    """As in Deep Speech 2, section 6; of equal ones the first."""
    first, second = ["one two", "four five", "six"], ["one too", "for five", "six seven"]
    assert better_of(["one two", "for five", "seven"], [first, second]) == ["one two", "for five", "six"]
