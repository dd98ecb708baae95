"""Which recordings are decoded together."""

from pathlib import Path

import pytest
import torch

from ds2.recognition.windows import Result, Segment, padded_groups


def results(durations: list[float]) -> list[Result]:
    return [(Segment(Path(str(number))), seconds, torch.zeros(1, 2)) for number, seconds in enumerate(durations)]


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
