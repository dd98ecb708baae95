"""Words on both sides of a pause."""

import numpy as np
import pytest

from ds2.recognition.long_words import beside_pauses
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word

FRAME = 0.05  # seconds


def rows(spoken: list[int], count: int = 100) -> list[np.ndarray]:
    """(T, 2) log-probabilities in two chunks: the blank is improbable in these frames, probable in all others."""
    blank = np.full(count, 0.9)
    blank[spoken] = 0.1
    every = np.log(np.stack([blank, 1 - blank], 1))
    return [every[:33], every[33:]]


@pytest.mark.parametrize(
    ("spoken", "times"),
    [
        ([10, 60, 62, 64], (3.0, 3.25)),  # the side with more speech
        ([10, 12, 14, 60], (0.5, 0.75)),
        ([10, 60], (0.5, 0.55)),  # of equal ones the first
        ([10, 30, 50, 64], (0.5, 3.25)),  # no pause is longer than a second
        ([10, 12, 40, 41, 43, 64], (2.0, 2.2)),  # alone between two pauses
        ([], (0.5, 3.25)),
    ],
)
def test_a_word_keeps_the_side_of_a_pause_that_has_more_speech(spoken: list[int], times: tuple[float, float]) -> None:
    before, after = Word("before", 0.0, 0.4, 0.9), Word("after", 3.4, 3.9, 0.9)
    heard = Transcript("before twenty after", (before, Word("twenty", 0.5, 3.25, 0.4), after), 5.0)
    found = beside_pauses(heard, rows([*spoken, 70]), FRAME, [0])
    assert (found.words[1].start, found.words[1].end) == times
    assert (found.words[0], found.words[2], found.text) == (before, after, heard.text)
    assert beside_pauses(heard, [], FRAME, [0]) is heard


def test_short_words_are_left_alone() -> None:
    heard = Transcript("one", (Word("one", 0.5, 1.4, 0.9),), 5.0)
    assert beside_pauses(heard, rows([10, 27]), FRAME, [0]) is heard
