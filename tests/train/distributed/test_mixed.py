"""Mixed training, in two real processes."""

from pathlib import Path

from helpers.training import (
    learns_stops_and_continues,
)


def test_it_learns_stops_and_continues(spoken_digits, launch, tmp_path: Path) -> None:
    learns_stops_and_continues(spoken_digits(21), launch, tmp_path, "mixed", replicas=2)
