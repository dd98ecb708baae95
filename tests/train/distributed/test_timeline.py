"""Where each rank's time goes."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TINY

from ds2.train.config import DataConfig, TrainConfig
from ds2.train.distributed.bench import read_run
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


def test_a_training_too_short_for_a_timeline_is_refused(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    manifest = spoken_digits(3)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, epochs=1, profile=6, observe=0)
    for batch_size in (1, 3):
        run = tmp_path / f"run{batch_size}"
        Trainer(dataclasses.replace(config, batch_size=batch_size), run).run()
        with pytest.raises(InputError, match=f"{run}: no timeline.*lower batch_size"):
            read_run(run, 1)


def test_profiled_minibatches_become_a_timeline(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """Fails if torch's profiler hides the start of its trace, which the spans are counted from."""
    manifest = spoken_digits(8)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, epochs=1, batch_size=1, profile=3)
    Trainer(config, tmp_path / "run").run()
    spans = json.loads((tmp_path / "run" / "timeline.rank0.json").read_text())
    kinds = [kind for kind, _, _ in spans]
    assert kinds.count("forward") == kinds.count("backward") == kinds.count("update") == 3
    assert all(begin <= end for _, begin, end in spans)
