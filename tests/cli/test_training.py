"""ds2 train, and what is done with trainings."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.commands import Outcome, assert_refused

from ds2.train.checkpoint import load_checkpoint


def test_train_refuses_an_unknown_key(run: Callable[..., Outcome], tmp_path: Path) -> None:
    toml = tmp_path / "train.toml"
    toml.write_text('epoch = 3\n[data]\ntrain = ["a"]\ndev = "b"\n')
    assert_refused(
        run("train", toml, "--output", tmp_path / "run"), str(toml), "unknown key epoch; did you mean epochs?"
    )
    toml.write_text('[data]\ntrain = ["a"]\ndev = "b"\n')
    outcome = run("train", toml, "--output", tmp_path / "run", "--set", "model.hiden=3")
    assert_refused(outcome, "model.hiden")
    assert not (tmp_path / "run").exists()


def test_train_refuses_a_bad_manifest(run: Callable[..., Outcome], tmp_path: Path) -> None:
    toml = tmp_path / "train.toml"
    toml.write_text('[data]\ntrain = ["t.jsonl"]\ndev = "d.jsonl"\n')
    assert_refused(run("train", toml, "--output", tmp_path / "run"), "t.jsonl", "No such file")


def test_full_disk_ends_training_in_one_line_and_keeps_the_checkpoint(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], small_disk: Path, tmp_path: Path
) -> None:
    manifest, toml = spoken_digits(8), tmp_path / "train.toml"
    toml.write_text(
        f'epochs = 9\nbatch_size = 4\ncheckpoint_minutes = 1e-6\n[data]\ntrain = ["{manifest}"]\ndev = "{manifest}"\n'
        "workers = 0\n[model]\nhidden = 8\nrecurrent_layers = 1\n"
        "convolutions = [{channels = 2, kernel = [11, 5], stride = [4, 2]}]\n[model.frontend]\nsample_rate = 8000\n"
    )
    assert run("train", toml, "--output", tmp_path / "roomy", "--set", "epochs=1")[0] == 0
    size = (tmp_path / "roomy" / "checkpoint.pt").stat().st_size
    (small_disk / "large.bin").write_bytes(bytes(256 * 1024 - 3 * size // 2))  # room for one checkpoint, not for two
    assert_refused(run("train", toml, "--output", small_disk), "No space left", "previous file, if any, is intact")
    assert load_checkpoint(small_disk / "checkpoint.pt")["state"]["step"] == 1
    assert sorted(path.name for path in small_disk.iterdir()) == [".lock", "checkpoint.pt", "large.bin", "tensorboard"]


@pytest.mark.parametrize(
    ("command", "option", "bound"),
    [("find-rate", "--batches", "at least 20 and at most 1,000,000"), ("bench-train", "--ranks", "from 1 to 1,024")],
)
@pytest.mark.parametrize("number", [0, 2**31, 2**63])
def test_numbers_beyond_any_use_are_refused(
    run: Callable[..., Outcome], tmp_path: Path, command: str, option: str, bound: str, number: int
) -> None:
    """Before anything is read or written."""
    outcome = run(command, tmp_path / "none.toml", "--output", tmp_path / "run", option, number)
    assert_refused(outcome, f"{option}: must be {bound}, got {number}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["train", "train --fine-tune digits", "bench-train"])
def test_a_folder_whose_name_is_not_utf_8_is_refused(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path, command: str
) -> None:
    """Before anything is written: the model could not be opened there."""
    manifest, toml, folder = spoken_digits(4), tmp_path / "train.toml", tmp_path / os.fsdecode(b"\xff\xfe.x")
    toml.write_text(f'[data]\ntrain = ["{manifest}"]\ndev = "{manifest}"\n')
    outcome = run(*command.split(), manifest if "tune" in command else toml, "--output", folder)
    assert_refused(outcome, r"\udcff\udcfe.x: the name is not UTF-8")
    assert not folder.exists()
