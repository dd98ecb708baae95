"""TensorBoard logs, read back by TensorBoard."""

from pathlib import Path

import pytest

from ds2.train.tensorboard import write_scalars


def test_the_figures_of_an_epoch_are_scalars_at_its_step(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write_scalars(tmp_path, {"epoch": 1, "step": 12, "loss": 2.5, "wer": 0.5, "skipped": 3})
    log = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert log.Tags()["scalars"] == ["loss", "wer"]
    assert [(event.step, event.value) for event in log.Scalars("loss")] == [(12, 2.5)]
