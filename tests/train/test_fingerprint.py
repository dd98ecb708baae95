"""What must not change between a checkpoint and its resumption."""

import dataclasses
import json
from pathlib import Path

import pytest
from helpers.training import Manifests, augmented_config

from ds2.train.checkpoint import load_checkpoint, save_checkpoint
from ds2.train.config import OptimizerConfig, ParallelConfig
from ds2.train.metrics import read_metrics
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


def test_checkpoint_of_another_configuration_is_refused(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = augmented_config(spoken_digits(4), epochs=1)
    Trainer(config, tmp_path / "run").run()
    with pytest.raises(InputError, match="other settings: seed = 1, not 9; resume"):
        Trainer(dataclasses.replace(config, seed=9), tmp_path / "run")


def test_more_epochs_train_on_in_the_same_folder(
    spoken_digits: Manifests, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A training that has ended says so; the epochs that are done stay, and fewer of them are refused."""
    config = augmented_config(spoken_digits(4), epochs=2)
    Trainer(config, tmp_path / "run").run()
    first = read_metrics(tmp_path / "run" / "metrics.jsonl")
    with caplog.at_level("INFO"):
        Trainer(config, tmp_path / "run").run()
    assert "training has ended after 2 epochs; to train on in this folder, raise epochs" in caplog.text
    Trainer(dataclasses.replace(config, epochs=3), tmp_path / "run").run()
    longer = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert longer[:2] == first
    assert [epoch["epoch"] for epoch in longer] == [1, 2, 3]
    with pytest.raises(InputError, match=r"other settings: epochs = 3, not 2;.*best\.safetensors there"):
        Trainer(config, tmp_path / "run")


def test_keys_that_change_no_result_may_change(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = augmented_config(spoken_digits(4), epochs=1)
    Trainer(config, tmp_path / "run").run()
    free = {"checkpoint_minutes": 9.0, "observe": 0, "parallel": ParallelConfig(group=3)}
    changed = dataclasses.replace(config, **free, data=dataclasses.replace(config.data, workers=2))  # type: ignore
    assert Trainer(changed, tmp_path / "run").state.epoch == 1


def test_a_checkpoint_of_version_0_1_is_resumed(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Its fingerprint has the former names, and lacks the keys that are new."""
    config = augmented_config(spoken_digits(4), epochs=1, optimizer=OptimizerConfig("sgd", 1e-4, ema_decay=0.5))
    Trainer(config, tmp_path / "run").run()
    path = tmp_path / "run" / "checkpoint.pt"
    saved = load_checkpoint(path)
    then = saved["fingerprint"]
    then["growing"] = then.pop("curriculum_epochs")
    optimizer = then["optimizer"]
    optimizer["surge"], optimizer["average_decay"] = optimizer.pop("gradient_spike"), optimizer.pop("ema_decay")
    save_checkpoint(path, saved)
    assert Trainer(config, tmp_path / "run").state.epoch == 1
    optimizer["average_decay"] = 0.6
    save_checkpoint(path, saved)
    with pytest.raises(InputError, match=r"other settings: optimizer\.ema_decay = 0\.6, not 0\.5;"):
        Trainer(config, tmp_path / "run")


def test_corrected_texts_are_refused(spoken_digits: Manifests, tmp_path: Path) -> None:
    """The weights have learnt the former texts; a checkpoint that says nothing of texts is resumed."""
    manifest = spoken_digits(4)
    config = augmented_config(manifest, epochs=1)
    Trainer(config, tmp_path / "run").run()
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    rows = [row | {"text": row["text"][::-1]} for row in rows]  # of the same letters
    manifest.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(InputError, match=r"other data: data.train or data.dev has changed \(texts\);"):
        Trainer(config, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.pt"
    saved = load_checkpoint(path)
    del saved["fingerprint"]["texts"]
    save_checkpoint(path, saved)
    assert Trainer(config, tmp_path / "run").state.epoch == 1


def test_a_changed_manifest_is_no_changed_setting(spoken_digits: Manifests, tmp_path: Path) -> None:
    """An utterance more: the message names the data, and beside it only settings that differ, too."""
    manifest = spoken_digits(4)
    config = augmented_config(manifest, epochs=1)
    Trainer(config, tmp_path / "run").run()
    manifest.write_text(manifest.read_text() + spoken_digits(1).read_text().replace("0.wav", "../digits1/0.wav"))
    changed = r"other data: data.train or data.dev has changed \(utterances, hours, texts\);.* another output folder"
    with pytest.raises(InputError, match=f"was made with {changed}"):
        Trainer(config, tmp_path / "run")
    with pytest.raises(InputError, match=f"was made with other settings: seed = 1, not 9 and {changed}"):
        Trainer(dataclasses.replace(config, seed=9), tmp_path / "run")
