"""Every file that must last is on the disk before it takes its name, and its name before anything is built on it.

strace records what whole commands ask of the system: atomic_write is tested here as everything else uses it.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.commands import write_noise
from helpers.train_toml import small_toml

from ds2.recognition.formats import FORMATS

CALLS = "write,pwrite64,writev,ftruncate,fsync,fdatasync,rename,renameat,renameat2"
ON_FILE = re.compile(r"^\d+ +(write|pwrite64|writev|ftruncate|fsync|fdatasync)\(\d+<(/[^>]*)>")
RENAMES = re.compile(r'^\d+ +rename\w*\((?:[^"]*)"([^"]*)",(?:[^"]*)"([^"]*)"')
RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)")
UNFINISHED = " <unfinished ...>"
MAY_BE_LOST = ("tensorboard/", ".lock")  # what is written again, or holds nothing


@pytest.fixture
def traced(tmp_path: Path) -> Callable[..., list[tuple[str, str, str]]]:
    """traced(arguments...): the events of `ds2 arguments...`: (call, file, its new name)."""
    if shutil.which("strace") is None:
        pytest.skip("needs the package strace")
    log = tmp_path / "strace.txt"

    def run(*arguments: object) -> list[tuple[str, str, str]]:
        command = [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-y",
            "-e",
            f"trace={CALLS}",
            "-o",
            log,
            sys.executable,
            "-m",
            "ds2",
        ]
        result = subprocess.run([*map(str, command), *map(str, arguments)], capture_output=True, text=True)
        if "ptrace" in result.stderr:
            pytest.skip("strace is not allowed here")
        assert result.returncode == 0, result.stderr
        return list(events(log.read_text(errors="replace").splitlines()))

    return run


def events(lines: list[str]):
    """The calls in the order in which they ended; one that was interrupted by other threads stands on two lines."""
    begun: dict[str, str] = {}
    for line in lines:
        if line.endswith(UNFINISHED):
            begun[line.split()[0]] = line.removesuffix(UNFINISHED)
            continue
        if (resumed := RESUMED.match(line)) and resumed[1] in begun:
            line = begun.pop(resumed[1]) + resumed[2]
        if on_file := ON_FILE.match(line):
            yield on_file[1], on_file[2], ""
        elif renamed := RENAMES.match(line):
            yield "rename", renamed[1], renamed[2]


def assert_lasts(calls: list[tuple[str, str, str]], folder: Path) -> set[str]:
    """Checks all calls on files in `folder`; the files that were written."""
    calls = [call for call in calls if call[1].startswith(f"{folder}/") or call[1] == str(folder)]
    dirty: set[str] = set()  # written, and not on the disk
    unnamed: dict[str, str] = {}  # folder: the file in it whose name is not on the disk
    lasting: set[str] = set()
    for call, path, name in calls:
        if call == "rename":
            assert path not in dirty, f"{name} takes its name before its data are on the disk"
            assert not unnamed, f"{name} takes its name before that of {unnamed} is on the disk"
            unnamed[str(Path(name).parent)] = name
            lasting.add(name)
        elif "sync" in call:
            dirty.discard(path)
            unnamed.pop(path, None)
        elif path not in lasting:
            dirty.add(path)
    assert not unnamed
    lost = {path for path in dirty if Path(path).exists() and not any(part in path for part in MAY_BE_LOST)}
    assert not lost, "written in place, without a temporary file"
    return {str(Path(name).relative_to(folder)) for name in lasting}


@pytest.mark.long
def test_a_training(traced, spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    config = tmp_path / "train.toml"
    config.write_text(small_toml(spoken_digits(8)))
    calls = traced("train", config, "--output", tmp_path / "run", "--set", "epochs=1", "--set", "observe=0")
    assert assert_lasts(calls, tmp_path / "run") >= {"checkpoint.pt", "best.safetensors", "metrics.jsonl"}


def test_transcripts(traced, tiny_bundle: Path, tmp_path: Path) -> None:
    audio, out = write_noise(tmp_path / "a.wav"), tmp_path / "out"
    calls = traced("transcribe", audio, "--model", tiny_bundle, "--format", "all", "--output", out)
    assert assert_lasts(calls, out) == {f"a.{name}" for name in FORMATS}


def test_data_sets(traced, spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    calls = traced("data", "shard", spoken_digits(4), "--output", tmp_path / "shards")
    assert "manifest.jsonl" in assert_lasts(calls, tmp_path / "shards")


def test_language_models(traced, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one two\ntwo three one\nthree\n" * 5)
    folder = tmp_path / "lm"
    folder.mkdir()
    assert assert_lasts(traced("lm", "build", tmp_path / "texts.txt", "-o", folder / "lm.arpa"), folder) == {"lm.arpa"}
    calls = traced("lm", "compile", folder / "lm.arpa", "-o", folder / "lm.bin")
    assert assert_lasts(calls, folder) == {"lm.bin"}
