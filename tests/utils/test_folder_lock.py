"""One process at a time writes into a folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from ds2.utils.errors import InputError
from ds2.utils.folder_lock import FolderLock

HOLD = (
    "import os, pathlib, sys\n"
    "from ds2.utils.folder_lock import FolderLock\n"
    "lock = FolderLock(pathlib.Path(sys.argv[1]))\n"
    "if sys.argv[2] == 'fork' and os.fork() == 0:\n"
    "    sys.stdin.read()  # as a process that loads data: it outlives its parent\n"
    "    os._exit(0)\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


def hold(folder: Path, how: str = "alone") -> "subprocess.Popen[str]":
    """A process that holds the folder's lock until its input ends."""
    command = [sys.executable, "-c", HOLD, str(folder), how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    first = hold(tmp_path)
    with pytest.raises(InputError, match=rf"{tmp_path}: process {first.pid} writes into this folder") as refusal:
        FolderLock(tmp_path)
    assert "\n" not in str(refusal.value)
    first.communicate("")
    with FolderLock(tmp_path):
        command = [sys.executable, "-c", HOLD, str(tmp_path), "alone"]
        assert "InputError" in subprocess.run(command, input="", capture_output=True, text=True).stderr
    hold(tmp_path).communicate("")


def test_death_releases_the_lock_though_a_child_lives(tmp_path: Path) -> None:
    killed = hold(tmp_path, "fork")
    killed.kill()
    killed.wait()
    with FolderLock(tmp_path):
        pass
    killed.communicate("")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_place_of_the_lock_is_refused_and_its_target_left(tmp_path: Path, there: bool) -> None:
    precious, folder = tmp_path / "precious.txt", tmp_path / "out"
    if there:
        precious.write_text("my own text\n")
    folder.mkdir()
    (folder / ".lock").symlink_to("../precious.txt")
    with pytest.raises(InputError, match=rf"{folder}/\.lock: a symbolic link, which a lock may not be; remove it"):
        FolderLock(folder)
    assert (precious.read_text() == "my own text\n") if there else not precious.exists()


def test_a_lock_that_cannot_be_made_keeps_its_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FolderLock(tmp_path / "none")
    (tmp_path / ".lock").mkdir()
    with pytest.raises(IsADirectoryError):
        FolderLock(tmp_path)
