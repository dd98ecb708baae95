"""Windows of long recordings, and which recordings are decoded together."""

from pathlib import Path

import pytest
import torch

from ds2.data.utterance import RecordingSpan
from ds2.recognition.windows import CONTEXT_SECONDS, LONG_SECONDS, Cutter, Result, padded_groups


def results(durations: list[float]) -> list[Result]:
    return [(RecordingSpan(Path(str(number))), seconds, torch.zeros(1, 2)) for number, seconds in enumerate(durations)]


@pytest.mark.parametrize(
    ("durations", "sizes"),
    [([], []), ([1, 2, 3], [3]), ([5, 5, 1, 1], [2, 2]), ([1, 1, 1, 9, 1], [3, 1, 1]), ([30, 1, 30], [1, 1, 1])],
)
def test_a_group_padded_to_its_longest_keeps_to_the_limit(durations: list[float], sizes: list[int]) -> None:
    given = results(durations)
    groups = list(padded_groups(given, 10.0))
    assert [len(group) for group in groups] == sizes
    assert [result for group in groups for result in group] == given


def test_a_long_recording_does_not_wait_for_the_next() -> None:
    given = iter(results([30, 1]))
    assert len(next(padded_groups(given, 10.0))) == 1
    assert next(given)[1] == 1


@pytest.mark.parametrize("seconds", [30.01, 40.0, 47.3, 65.0, 85.01])
def test_cuts_of_long_recordings_cover_every_frame_once(seconds: float) -> None:
    cutter, frame, at = Cutter(8000, 160), 0.02, 0
    cuts = list(cutter.cuts(seconds))
    for start, length, first, last in cuts:
        assert length <= LONG_SECONDS + CONTEXT_SECONDS
        assert round(start / frame) + first == at
        at = round(start / frame) + last if last is not None else round(seconds / frame)
    assert at == round(seconds / frame)
    assert cuts[-1][0] + cuts[-1][1] == pytest.approx(seconds)
