"""Local SGD, in two real processes."""

from pathlib import Path

import pytest
from helpers.training import learns_stops_and_continues

from ds2.train.config import ParallelConfig, TrainConfig
from ds2.utils.config import from_dict
from ds2.utils.errors import InputError


@pytest.mark.long
def test_it_learns_stops_and_continues(spoken_digits, launch, tmp_path: Path) -> None:
    learns_stops_and_continues(spoken_digits(21), launch, tmp_path, "local-sgd", replicas=2)


def test_its_former_name_is_refused_with_the_present_one() -> None:
    """What version 0.1 called mixed must not silently become another strategy."""
    data = {"train": ["a.jsonl"], "dev": "b.jsonl"}
    with pytest.raises(InputError, match=r'train\.toml: parallel: .*strategy = "local-sgd"'):
        from_dict(TrainConfig, {"data": data, "parallel": {"strategy": "mixed", "average_every": 8}}, "train.toml")
    assert ParallelConfig("mixed", servers=1).workers == 1
