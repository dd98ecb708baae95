"""Commands whose output meets a full disk, wherever it is full: a limit of the file size stands for the disk."""

import os
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from ds2.cli.main import main

SIZES = 8  # at which the disk is full, for each command
BEFORE = b"from before"
COMMANDS = {  # with {manifest}, {text} and {arpa}, and the output behind them
    "counted": ("lm build {text} --order 2 --output", "out.arpa"),
    "packed": ("lm build {text} --order 2 --output", "out.arpa.gz"),
    "compiled": ("lm compile {arpa} --output", "out.lm"),
    "sampled": ("data sample {manifest} --hours 1 --output", "out.jsonl"),
    "converted": ("data convert {manifest} --output", "out.jsonl"),
    "table": ("data compile {manifest} --output", "out.arrow"),
}
FOLDERS = {  # with {manifest} and {sounds}, and an output folder behind them
    "shards": "data shard {manifest} --hours 0.001 --output",
    "mixed": "data mix {manifest} --noise {sounds} --jobs 1 --output",
    "noise": "data noise {sounds} --hours 0.002 --output",
}


def run_limited(arguments: list[str], size: int) -> tuple[int, str]:
    """Exit code and standard error of a command in a process that writes no file beyond `size` bytes."""
    read, write = os.pipe()
    number = os.fork()
    if number == 0:
        code = 99
        try:
            os.dup2(write, 2)
            os.dup2(write, 1)
            with open(2, "w", closefd=False) as errors, open(os.devnull, "w") as output:
                sys.stderr, sys.stdout = errors, output
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
                code = main(arguments)
        except BaseException:
            os.write(write, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        errors = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), errors


@pytest.mark.parametrize("command", COMMANDS)
def test_a_disk_that_is_full_at_any_byte_leaves_the_earlier_file(
    spoken_digits: Callable[[int], Path], tmp_path: Path, command: str
) -> None:
    text, arpa = tmp_path / "text.txt", tmp_path / "text.arpa"
    text.write_text("".join(f"one two word{number} three\n" for number in range(300)))
    assert main(["lm", "build", str(text), "--order", "2", "--output", str(arpa)]) == 0
    words, name = COMMANDS[command]
    (tmp_path / "out").mkdir()
    output = tmp_path / "out" / name
    arguments = [*words.format(text=text, arpa=arpa, manifest=spoken_digits(9)).split(), str(output)]
    assert main(arguments) == 0
    whole = output.stat().st_size
    assert whole > SIZES
    for size in [place * whole // SIZES for place in range(SIZES)] + [whole - 1]:
        output.write_bytes(BEFORE)
        code, errors = run_limited(arguments, size)
        assert code == 2, errors
        assert errors.splitlines()[-1].startswith("ds2: ")  # behind the progress of lm build
        assert "Traceback" not in errors
        assert output.read_bytes() == BEFORE
        assert list(output.parent.iterdir()) == [output]


@pytest.mark.parametrize("command", FOLDERS)
def test_a_disk_that_is_full_at_any_byte_leaves_no_half_file(
    spoken_digits: Callable[[int], Path], tmp_path: Path, command: str
) -> None:
    manifest = spoken_digits(9)
    arguments = FOLDERS[command].format(manifest=manifest, sounds=manifest.parent).split()
    assert main([*arguments, str(tmp_path / "whole")]) == 0
    whole = contents(tmp_path / "whole")
    largest = max(map(len, whole.values()))
    for size in (0, 1, largest // 2, largest - 1):
        folder = tmp_path / str(size)
        code, errors = run_limited([*arguments, str(folder)], size)
        assert code == 2, errors
        assert errors.splitlines()[-1].startswith(f"ds2: {folder}"), errors
        assert "Traceback" not in errors
        assert contents(folder).items() <= whole.items()


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, but for its lock."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != ".lock"}
