"""Files appear whole or not at all, also on a full disk."""

import gzip
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from ds2.bundle import Bundle
from ds2.train.checkpoint import load_checkpoint, save_checkpoint
from ds2.utils import files
from ds2.utils.errors import InputError, printable
from ds2.utils.files import (
    atomic_write,
    check_writable,
    make_folder,
    numbered_lines,
    read_text,
    text_lines,
    write_lines,
)


def test_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_write(path) as partial:
        partial.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_keeps_the_old_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(path) as partial:
        partial.write_text("ne") and partial.write_text(3)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from ds2.utils.files import atomic_write
with atomic_write(sys.argv[1]) as partial:
    partial.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_nothing_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -signal.SIGKILL
        assert len(list(tmp_path.iterdir())) == 1
    assert not path.exists()
    with atomic_write(path) as partial:
        assert partial.read_bytes() == b""
        partial.write_text("whole")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "whole"


def test_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_write(path) as first:
        first.write_text("first")
        with atomic_write(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
        assert first.read_text() == "first"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_data_and_folder_reach_the_disk_around_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut leaves the old file or the new one."""
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def recorded_fsync(descriptor: int) -> None:
        events.append("sync " + Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def recorded_replace(path: Path, target: Path) -> Path:
        events.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    with atomic_write(tmp_path / "a.txt") as partial:
        partial.write_text("x")
    assert events == ["sync .a.txt.partial", "rename", f"sync {tmp_path.name}"]


@pytest.mark.parametrize("there", [True, False])
def test_the_target_of_a_link_is_replaced_and_the_link_stays(tmp_path: Path, there: bool) -> None:
    folder, link = tmp_path / "data", tmp_path / "link"
    folder.mkdir()
    target = folder / "a.txt"
    if there:
        target.write_text("old")
    (tmp_path / "between").symlink_to(target)
    link.symlink_to("between")
    check_writable(link)
    with atomic_write(link) as partial:
        assert partial.parent == folder
        partial.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_lines(link, [])
    assert link.is_symlink()
    assert not target.exists()


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    for write in (lambda: check_writable(tmp_path / "a"), lambda: write_lines(tmp_path / "a", ["x"])):
        with pytest.raises(InputError, match="a: cannot be written"):
            write()
    assert (tmp_path / "a").is_symlink()


def test_a_pipe_gets_the_bytes_of_a_file_that_was_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)
    with subprocess.Popen(["timeout", "60", "cat", pipe], stdout=subprocess.PIPE) as reader:
        with atomic_write(pipe) as partial, partial.open("wb") as file:
            file.write(b"xbc")
            file.seek(0)
            file.write(b"a")
        assert reader.communicate()[0] == b"abc"
    write_lines(pipe, [])
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["full", "null"])
def test_a_device_is_written_into_and_never_replaced(tmp_path: Path, name: str) -> None:
    device = tmp_path / name
    number = os.stat(f"/dev/{name}").st_rdev
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, number)
        device.open("rb").close()
    except PermissionError:
        pytest.skip("making a device needs root")
    check_writable(device)
    refused = pytest.raises(InputError, match=r"full: cannot be written \(No space left")
    with refused if name == "full" else nullcontext():
        write_lines(device, ["x"])
    write_lines(device, [])
    assert os.stat(device).st_rdev == number
    assert list(tmp_path.iterdir()) == [device]


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(tmp_path / "socket"))
        for write in (lambda: check_writable(tmp_path / "socket"), lambda: write_lines(tmp_path / "socket", ["x"])):
            with pytest.raises(InputError, match="socket: cannot be written"):
                write()
    assert (tmp_path / "socket").is_socket()


@pytest.mark.parametrize("name", ["", ".", "/", "..", "folder"])
def test_a_folder_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cannot be written \\(a folder, not a file\\)"), atomic_write(name):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_device_without_end_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE_TEXT", 100_000)
    with pytest.raises(InputError, match="/dev/zero: a device or pipe with more than 100,000 characters"):
        read_text("/dev/zero")
    assert read_text("/dev/null") == ""


def test_a_link_planted_where_the_temporary_file_will_be_is_not_followed(tmp_path: Path) -> None:
    victim, planted = tmp_path / "victim", tmp_path / ".a.txt.partial"
    victim.write_text("precious")
    planted.symlink_to(victim)
    write_lines(tmp_path / "a.txt", ["new"])
    assert victim.read_text() == "precious"
    assert not (tmp_path / "a.txt").is_symlink()


def test_name_too_long(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"), atomic_write(tmp_path / ("x" * 300)) as partial:
        partial.write_text("x")


def test_a_folder_is_made_unless_a_file_is_in_its_place(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "new" / "folder" / "a.txt") as partial:
        partial.write_text("x")
    assert (tmp_path / "new" / "folder" / "a.txt").read_text() == "x"
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"), atomic_write(tmp_path / "file" / "a.txt") as partial:
        partial.write_text("x")


def test_what_cannot_be_written_is_told_before(tmp_path: Path, small_disk: Path) -> None:
    check_writable(None, tmp_path / "a.txt")
    with pytest.raises(InputError, match=f"{tmp_path}: cannot be written"):
        check_writable(None, tmp_path)
    check_writable(tmp_path / "new" / "folder" / "a.txt")
    assert (tmp_path / "new" / "folder").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: is no folder"):
        check_writable(tmp_path / "file" / "a.txt")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(InputError, match="cannot be written"):
        check_writable(small_disk / "a.txt")
    with pytest.raises(InputError, match="not writable"):
        make_folder(small_disk)


def test_full_disk_keeps_the_earlier_checkpoint(small_disk: Path) -> None:
    path = small_disk / "checkpoint.pt"
    save_checkpoint(path, {"step": 1, "model": torch.zeros(10_000)})
    with pytest.raises(InputError, match=r"checkpoint\.pt: cannot be written \(No space left") as caught:
        save_checkpoint(path, {"step": 2, "model": torch.zeros(100_000)})
    assert "\n" not in str(caught.value)
    assert load_checkpoint(path)["step"] == 1
    assert list(small_disk.iterdir()) == [path]


def test_full_disk_keeps_the_earlier_bundle(small_disk: Path) -> None:
    path = small_disk / "model.safetensors"
    Bundle(weights={"w": torch.zeros(10_000)}, config={}, tokens=[]).save(path)
    with pytest.raises(InputError, match="No space left"):
        Bundle(weights={"w": torch.zeros(100_000)}, config={}, tokens=[]).save(path)
    assert len(Bundle.load(path).weights["w"]) == 10_000


def test_lines_end_where_lines_end_alone(tmp_path: Path) -> None:
    """U+2028 and U+0085 are characters of a text, as JSON has it."""
    (tmp_path / "a.txt").write_bytes("one\u2028two\r\n\nthree\u0085four".encode())
    assert list(numbered_lines(tmp_path / "a.txt")) == [(1, "one\u2028two"), (3, "three\u0085four")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_text_is_read_as_its_byte_order_mark_says(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding.endswith(("le", "be")) else ""
    (tmp_path / "a.srt").write_bytes(f"{mark}naïve 早\r\ntwo\n".encode(encoding))
    assert read_text(tmp_path / "a.srt") == "naïve 早\ntwo\n"


@pytest.mark.parametrize(("data", "why"), [(b"na\xefve", "UTF-8 (byte 2)"), (b"\xff\xfea", "UTF-16")])
def test_a_text_in_another_encoding_is_refused_with_the_remedy(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "a.srt").write_bytes(data)
    with pytest.raises(InputError, match=re.escape(f"a.srt: not valid {why}; convert it, such as by iconv")):
        read_text(tmp_path / "a.srt")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_large_text_with_a_byte_order_mark_plain_and_zipped(tmp_path: Path, name: str) -> None:
    with (gzip.open if name.endswith("gz") else open)(tmp_path / name, "wt", encoding="utf-8-sig") as file:
        file.write("one\ntwo\n")
    assert list(text_lines(tmp_path / name)) == ["one\n", "two\n"]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("gone.txt", None, "No such file"),
        ("latin.txt", b"\xff\n", "not valid UTF-8"),
        ("text.xz", b"\xfd7zXZ\x00\xff\n", "or unpack it if it is packed other than as .gz"),
        ("latin.gz", gzip.compress(b"\xff\n", mtime=0), "not valid UTF-8"),
        ("text.gz", b"no gzip", "Not a gzipped file"),
        ("cut.gz", gzip.compress(b"one\n" * 100, mtime=0)[:-12], "ended before"),
        ("damaged.gz", gzip.compress(b"one\n", mtime=0)[:10] + b"\xff" * 20, "invalid"),
    ],
)
def test_large_text_that_cannot_be_read_is_named(tmp_path: Path, name: str, data: bytes | None, why: str) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}: .*{why}"):
        list(text_lines(tmp_path / name))


@pytest.mark.parametrize("line", [b"a" * (1 << 20), b"a\n" * (1 << 19)], ids=["one line", "many lines"])
def test_a_text_that_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    """Lines are read up to a length, and a .gz up to a ratio; what comes before is read."""
    monkeypatch.setattr("ds2.utils.files.LARGE_TEXT", 1 << 22)
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(40):
            file.write(line)
    with pytest.raises(InputError, match=r"bomb\.gz: a line of 16,777,216 characters, or packed over 200 to 1"):
        list(text_lines(path))
    path.with_suffix(".txt").write_bytes(b"a\n" * (1 << 22))
    assert sum(map(len, text_lines(path.with_suffix(".txt")))) == 1 << 23


def test_without_lines_there_is_no_file_and_names_that_are_no_utf8_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "failed.txt"
    write_lines(path, [os.fsdecode(b"\xff.wav: gone"), "b"])
    assert path.read_text() == "\\udcff.wav: gone\nb\n"
    for _ in range(2):
        write_lines(path, [])
        assert not path.exists()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zwölf 十二", "zwölf 十二"),
        ("a\nb\tc\x1b[31m", r"a\nb\tc\x1b[31m"),
        ("\u2028\x85\x7f", r"\u2028\x85\x7f"),
        (b"\xff.wav".decode(errors="surrogateescape"), r"\udcff.wav"),
    ],
)
def test_a_text_is_printed_on_one_line(text: str, shown: str) -> None:
    assert printable(text) == shown
