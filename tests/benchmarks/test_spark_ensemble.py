"""The benchmark of ensembles: its recordings and its table."""

from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import import_script


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return import_script(Path(__file__).parents[2] / "benchmarks" / "spark_ensemble.py")


def test_bursts_are_three_takes_of_one_digit_by_one_speaker(script: ModuleType) -> None:
    """Twelve takes of ten digits by six speakers, without the takes of the official test part."""
    rows = script.recordings()
    bursts: dict[str, list] = {}
    for speaker, label, take, _, burst, _ in rows:
        bursts.setdefault(burst, []).append((speaker, label, take))
    assert len(rows) == 12 * 10 * 6
    for members in bursts.values():
        assert len(members) == 3
        assert len({(speaker, label) for speaker, label, _ in members}) == 1
    assert min(take for _, _, take, *_ in rows) == 5


def test_the_table_has_means_over_speakers_and_seeds(script: ModuleType) -> None:
    """Seed 1: speakers with 0 and 20 % errors; seed 2: 20 and 40 %."""
    found = {1: [[0.0] * 4, [0.2] * 4], 2: [[0.2] * 4, [0.4] * 4]}
    assert "| base | 20.0% | 10.0%, 30.0% |" in script.table(found)
