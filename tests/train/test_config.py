"""The configuration of a run: ranges, combinations, and the keys of version 0.1."""

from pathlib import Path

import pytest
from helpers.training import plain_config

from ds2.data.corpus_sampling import SamplingConfig
from ds2.train.config import ComputeConfig, OptimizerConfig, ParallelConfig, TrainConfig
from ds2.utils.config import load_config
from ds2.utils.errors import InputError


@pytest.mark.parametrize(
    "setting",
    [
        "epochs=0",
        "batch_size=-1",
        "patience=-1",
        "seed=-1",
        "checkpoint_minutes=-0.5",
        "data.workers=-1",
        "data.fraction=0.0",
        "data.fraction=1.5",
        "data.train=[]",
        "model.dropout=2.0",
        "model.hidden=0",
        "model.frontend.sample_rate=0",
        "model.frontend.window=0.0001",
        "optimizer.learning_rate=-1.0",
        "optimizer.learning_rate=nan",
        "optimizer.momentum=0.0",
        "optimizer.annealing=0.0",
        "optimizer.clip_norm=0.0",
        "optimizer.warmup=1.5",
        "optimizer.ema_decay=1.0",
        "parallel.group=0",
        "parallel.staleness=-1",
        "start.freeze_epochs=-1",
    ],
)
def test_numbers_out_of_range_are_refused_by_their_key(tmp_path: Path, setting: str) -> None:
    (tmp_path / "train.toml").write_text('[data]\ntrain = ["a"]\ndev = "b"\n')
    section, _, key = setting.partition("=")[0].rpartition(".")
    with pytest.raises(InputError, match=rf"train\.toml: {section}.*{key}"):
        load_config(TrainConfig, tmp_path / "train.toml", [setting])


def test_options_that_cannot_be_combined_are_refused() -> None:
    parallel = ParallelConfig("asynchronous")
    with pytest.raises(ValueError, match="ema_decay"):
        plain_config(Path("a"), parallel=parallel, optimizer=OptimizerConfig(ema_decay=0.9))
    with pytest.raises(ValueError, match="float16"):
        plain_config(Path("a"), parallel=parallel, compute=ComputeConfig("float16"))


def test_weights_must_be_as_many_as_manifests() -> None:
    with pytest.raises(ValueError, match="2 values for 1 manifests"):
        plain_config(Path("m.jsonl"), sampling=SamplingConfig(weights=(1.0, 2.0)))


def test_a_configuration_of_version_0_1_loads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "train.toml").write_text(
        'growing = 3\ncheckpoint_every = 200\ncheckpoint_minutes = 2.0\n[data]\ntrain = ["a"]\ndev = "b"\n'
        "[optimizer]\nsurge = 4.0\naverage_decay = 0.9\n"
    )
    config = load_config(TrainConfig, tmp_path / "train.toml")
    assert config.curriculum_epochs == 3
    assert config.checkpoint_minutes == 2.0
    assert config.optimizer == OptimizerConfig(gradient_spike=4.0, ema_decay=0.9)
    assert len(caplog.messages) == 4
