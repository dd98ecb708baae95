"""The folder of a run: its lock, and what a killed training left in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from ds2.train.run_folder import open_folder
from ds2.utils.errors import InputError

HOLD = (
    "import os, pathlib, sys\n"
    "from ds2.train.run_folder import open_folder\n"
    "lock = open_folder(pathlib.Path(sys.argv[1]))\n"
    "if sys.argv[2] == 'fork' and os.fork() == 0:\n"
    "    sys.stdin.read()  # a process that loads data\n"
    "    os._exit(0)\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


def hold(folder: Path, how: str = "alone") -> "subprocess.Popen[str]":
    """A process that holds the folder's lock."""
    command = [sys.executable, "-c", HOLD, str(folder), how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_training_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    first = hold(tmp_path)
    with pytest.raises(
        InputError, match=rf"{tmp_path}: another training \(process {first.pid}\) writes into"
    ) as refusal:
        open_folder(tmp_path)
    assert "\n" not in str(refusal.value)
    first.communicate("")
    with open_folder(tmp_path):
        assert hold_is_refused(tmp_path)
    second = hold(tmp_path)
    second.communicate("")
    assert second.returncode == 0


def hold_is_refused(folder: Path) -> bool:
    result = subprocess.run(
        [sys.executable, "-c", HOLD, str(folder), "alone"], input="", capture_output=True, text=True
    )
    return "another training" in result.stderr


def test_death_releases_the_lock_though_its_children_live(tmp_path: Path) -> None:
    killed = hold(tmp_path, "fork")
    killed.kill()
    killed.wait()
    with open_folder(tmp_path):
        pass
    killed.communicate("")


def test_half_written_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "observed").mkdir()
    for name in (".checkpoint.pt.123.partial", "observed/.epoch_0001.pt.9.partial", "metrics.jsonl"):
        (tmp_path / name).write_text("half")
    open_folder(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [".lock", "metrics.jsonl"]
