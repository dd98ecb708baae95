"""The three lines of the README."""

from collections.abc import Callable
from pathlib import Path

import ds2


def test_load_and_transcribe(spoken_digits: Callable[[int], Path]) -> None:
    path = spoken_digits(1).parent / "0.wav"
    transcript = ds2.load().transcribe(path)
    assert transcript == ds2.transcribe(path)
    assert transcript.text == "zero"
    [word] = transcript.words
    assert 0 <= word.start < word.end <= transcript.duration
    assert 0.5 < word.confidence <= 1
