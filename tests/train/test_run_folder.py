"""The folder of a run."""

from pathlib import Path

import pytest
from helpers.training import Manifests, plain_config

from ds2.train import trainer
from ds2.train.run_folder import open_folder
from ds2.train.trainer import Trainer


def test_half_written_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "observed").mkdir()
    for name in (".checkpoint.pt.123.partial", "observed/.epoch_0001.pt.9.partial", "metrics.jsonl"):
        (tmp_path / name).write_text("half")
    open_folder(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [".lock", "metrics.jsonl"]


def test_the_first_rank_holds_the_folder_until_its_run_ends(
    spoken_digits: Manifests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Trainer(plain_config(spoken_digits(4), epochs=1), tmp_path / "run")
    assert training.lock is not None
    held = []
    monkeypatch.setattr(trainer, "draw_curves", lambda *_: held.append(training.lock.release.alive))
    training.run()
    assert held == [True]
    assert not training.lock.release.alive
