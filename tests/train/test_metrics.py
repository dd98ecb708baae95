"""metrics.jsonl."""

from pathlib import Path

import pytest

from ds2.train.metrics import FIGURES, read_metrics, write_metrics
from ds2.train.report import write_run_report
from ds2.train.run_folder import open_folder
from ds2.utils.errors import InputError


def test_a_cut_last_line_is_omitted_and_a_broken_one_named(tmp_path: Path) -> None:
    path, epochs = tmp_path / "metrics.jsonl", [dict.fromkeys(FIGURES, number) for number in (1, 2)]
    write_metrics(path, epochs)
    whole = path.read_text()
    path.write_text(whole[:-5])
    assert read_metrics(path) == epochs[:1]
    for garbage in ("{broken", "3", "{}", whole.partition("\n")[0].replace("1", '"<script>"', 1)):
        path.write_text(f"{garbage}\n{whole}")
        with pytest.raises(InputError, match=r"metrics\.jsonl:1: not the figures of an epoch"):
            write_run_report(tmp_path, tmp_path / "report.html")
    path.write_text(whole[:5])
    (tmp_path / "checkpoint.pt").touch()
    with pytest.raises(InputError, match="wait for the first epoch"):
        write_run_report(tmp_path, tmp_path / "report.html")


def test_a_folder_without_a_training_is_called_so(tmp_path: Path) -> None:
    """One that a training has locked waits for its first epoch."""
    with pytest.raises(InputError, match=r"no metrics\.jsonl with figures; it holds no training, name one"):
        write_run_report(tmp_path, tmp_path / "report.html")
    open_folder(tmp_path)
    with pytest.raises(InputError, match="wait for the first epoch"):
        write_run_report(tmp_path, tmp_path / "report.html")
