"""Training data: alphabet, fractions, feature statistics, and the processes that load it."""

import dataclasses
import json
import multiprocessing
from pathlib import Path
from typing import Literal

import pytest
import torch
from conftest import TINY
from helpers.training import Manifests, augmented_config, plain_config

from ds2.model.config import FrontendConfig
from ds2.model.frontend import Frontend
from ds2.train.config import DataConfig
from ds2.train.data import TrainingData, ending_workers
from ds2.train.distributed.ranks import Ranks
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


def test_unknown_dev_characters_are_refused(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(4)
    dev = tmp_path / "dev.jsonl"
    dev.write_text(json.dumps({"audio_filepath": "x.wav", "duration": 1.0, "text": "zero ÿ"}) + "\n")
    with pytest.raises(InputError, match=r"dev\.jsonl:1.*ÿ"):
        Trainer(augmented_config(manifest, data=DataConfig((manifest,), dev, 0)), tmp_path / "run")


def test_a_text_file_gives_the_alphabet(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Characters that are frequent, but not in the few texts of the training set."""
    manifest, characters = spoken_digits(4), tmp_path / "characters.txt"
    characters.write_text("我\nqx\nefghinorstuvwz \n")
    data = DataConfig((manifest,), manifest, workers=0, alphabet=(characters,))
    found = Trainer(augmented_config(manifest, data=data), tmp_path / "run").data.tokenizer
    assert {"我", "q", "x", " "} < set(found.tokens)


def test_a_fraction_of_the_training_set_keeps_its_whole_alphabet(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(12)
    data = DataConfig((manifest,), manifest, workers=0, fraction=0.2)
    trainer = Trainer(augmented_config(manifest, data=data), tmp_path / "run")
    whole = Trainer(augmented_config(manifest), tmp_path / "whole")
    assert 1 <= len(trainer.data.train) < 5
    assert trainer.data.tokenizer.tokens == whole.data.tokenizer.tokens


def test_a_large_manifest_is_compiled_once_and_trains_the_same(
    spoken_digits: Manifests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra data")
    manifest = spoken_digits(12)
    config = augmented_config(manifest, data=DataConfig((manifest, manifest), manifest, 0, fraction=0.5))
    plain = TrainingData(config, Ranks(), None)
    monkeypatch.setattr("ds2.train.data.LARGE_BYTES", 1)
    large = TrainingData(config, Ranks(), None)
    compiled = manifest.with_name(f".{manifest.name}.arrow")
    assert list(large.train) == list(plain.train)
    assert large.tokenizer.tokens == plain.tokenizer.tokens
    assert large.hours == plain.hours
    for epoch in range(2):
        assert [batch.tolist() for batch in large.sampler.batches(epoch)] == [
            batch.tolist() for batch in plain.sampler.batches(epoch)
        ]
    made = compiled.stat().st_mtime_ns
    TrainingData(config, Ranks(), None)
    assert compiled.stat().st_mtime_ns == made
    manifest.write_text("".join(manifest.read_text().splitlines(keepends=True)[:-1]))
    whole = TrainingData(augmented_config(manifest), Ranks(), None)
    assert len(whole.train) == 11


@pytest.mark.parametrize("power", ["utterance", "adaptive"])
def test_statistics_skip_batches_that_cannot_be_read(
    spoken_digits: Manifests, tmp_path: Path, power: Literal["utterance", "adaptive"]
) -> None:
    """The shortest utterances come together, in a batch of their own."""
    manifest = spoken_digits(6)
    rows = [{"audio_filepath": f"gone{number}.wav", "duration": 0.01, "text": "zero"} for number in range(4)]
    gone = "".join(json.dumps(row) + "\n" for row in rows)
    model = dataclasses.replace(TINY, frontend=FrontendConfig(8000, power=power))
    config = augmented_config(manifest, model=model)
    manifest.write_text(gone + manifest.read_text())
    assert Trainer(config, tmp_path / "some").model.frontend.mean.isfinite().all()
    manifest.write_text(gone)
    with pytest.raises(InputError, match="none of the utterances tried can be read"):
        Trainer(config, tmp_path / "none")


def test_the_loaders_processes_end_with_the_context(spoken_digits: Manifests) -> None:
    """They ignore SIGTERM, by which torch would end them: `ending_workers` shuts them down by a private method."""
    config = plain_config(spoken_digits(8))
    data = TrainingData(dataclasses.replace(config, data=dataclasses.replace(config.data, workers=2)), Ranks(), None)
    before = {process.pid for process in multiprocessing.active_children()}
    with ending_workers(data.train_loader()) as loader:
        data.sampler.begin(0)
        next(iter(loader))
        assert len({process.pid for process in multiprocessing.active_children()} - before) == 2
    assert not {process.pid for process in multiprocessing.active_children()} - before


def test_features_are_measured_where_the_front_end_lies(
    spoken_digits: Manifests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the prior power cannot be added to sound on the host."""
    frontend = Frontend(FrontendConfig(8000, power="adaptive")).to("meta")
    heard: list[torch.Tensor] = []

    def log_spectrogram(*sound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heard.extend(sound)
        return torch.ones(len(sound[0]), frontend.config.bins, 2), torch.full((len(sound[0]),), 2)

    monkeypatch.setattr(frontend, "log_spectrogram", log_spectrogram)
    TrainingData(plain_config(spoken_digits(6)), Ranks(), None).measure_features(frontend)
    assert heard
    assert {tensor.device.type for tensor in heard} == {"meta"}
