"""Files are written whole or not at all; texts are read in UTF-8."""

import contextlib
import errno
import fcntl
import gzip
import math
import os
import shutil
import stat
import tempfile
import threading
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path

from ds2.utils.errors import InputError

REPORT = "failed.txt"  # beside the transcripts of recordings: a line for each without one
MOST_LINE = 1 << 24  # characters of a line of a text that is read line by line
LARGE_TEXT = 1 << 28  # characters that a .gz of any size may unpack to, and that a device or pipe may hold
MOST_RATIO = 200  # characters for each byte of a larger .gz; sentences have 3 to 10


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, whose folder it makes; renames it over `path` when the block ends well.

    On any failure the temporary file is removed and what stood at `path` before stays as it was. The data and the
    folder reach the disk, so that a power cut leaves the old file or the new one, never half of one. What a killed
    process left behind is used again by the next one that writes the same file. A symbolic link stays, and its target
    is replaced; a terminal, null device or pipe gets the bytes when the block ends well.

    Raises:
        InputError: the file cannot be written (no permission, full disk, a folder, a disk or a socket in its place).
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = _target(path)
        with _reserved(target) if target else _spooled(path) as partial:
            yield partial
            if target:
                to_disk(partial)
                partial.replace(target)
                to_disk(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path}: cannot be written ({reason}); the previous file, if any, is intact") from error


def _target(path: Path) -> Path | None:
    """The file that writing `path` replaces: the end of a symbolic link; None for a character device or a pipe.

    Raises:
        OSError: a folder, a disk, a socket or a circle of links, or one that this process may not follow.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:  # also a link to a file that is still to be made
        mode = stat.S_IFREG
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file", str(path))
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise OSError("a disk or a socket, not a file")
    return path.resolve() if path.is_symlink() else path


@contextlib.contextmanager
def _spooled(path: Path) -> Iterator[Path]:
    """A temporary file whose bytes go into a device or a pipe when the block ends well: writers seek, pipes do not."""
    with tempfile.TemporaryDirectory() as folder:
        partial = Path(folder, path.name)
        partial.touch()
        yield partial
        with partial.open("rb") as source, path.open("wb") as sink:
            shutil.copyfileobj(source, sink)


@contextlib.contextmanager
def _reserved(path: Path) -> Iterator[Path]:
    """A temporary file beside `path`, locked for as long as the block and this process live, and removed on failure."""
    partial, descriptor = _lock_partial(path)
    try:
        yield partial
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _lock_partial(path: Path) -> tuple[Path, int]:
    """An empty temporary file and its locked descriptor: one name for all processes, another where that is in use."""
    shared = path.with_name(f".{path.name}.partial")
    try:
        return shared, _locked(shared)
    except OSError:  # in use, or of another user; what is wrong with the folder shows below
        own = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
        return own, _locked(own)


def _locked(partial: Path) -> int:
    """Makes a file, or takes over one that is there, empties and locks it.

    Raises:
        OSError: it cannot be made, or another process holds its lock.
    """
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.stat(partial)):
            raise FileExistsError(f"{partial} was renamed by another process")
        os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end, with all that the block wrote into it.

    Raises:
        InputError: it cannot be made or written, such as on a full disk; the block meets no other OSError.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="ds2-") as folder:
            yield Path(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "name a folder with more room in TMPDIR"
        raise InputError(f"{tempfile.gettempdir()}: cannot hold the temporary files ({reason}); {hint}") from error


def to_disk(path: Path) -> None:
    """Waits until a file's data, or a folder's names, lie on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partials(folder: Path) -> None:
    """Removes the temporary files that `atomic_write` leaves where its process is killed."""
    for partial in folder.rglob(".*.partial"):
        partial.unlink(missing_ok=True)


def check_writable(*paths: Path | None) -> None:
    """Checks up front that output files can be written, and makes their folders; None: a file that is not wanted.

    Raises:
        InputError: the folder cannot be made or written, or a folder, disk or socket stands in the file's place.
    """
    for path in paths:
        if path is None:
            continue
        if not path.parent.is_dir():
            make_folder(path.parent)
        if not _writable(path):
            raise InputError(f"{path}: cannot be written; name a file in a folder that is writable")


def _writable(path: Path) -> bool:
    try:
        target = _target(path)
    except OSError:
        return False
    return os.access(target.parent, os.W_OK) and not target.is_dir() if target else os.access(path, os.W_OK)


def make_folder(path: str | Path) -> None:
    """Makes a folder and those above it, unless they are there.

    Raises:
        InputError: it cannot be made, or not be written into.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InputError(f"{path}: is no folder") from error
    except OSError as error:
        raise InputError(f"{path}: cannot make the folder ({error.strerror})") from error
    if not os.access(path, os.W_OK):
        raise InputError(f"{path}: this folder is not writable")


def in_utf8(path: Path) -> bool:
    """Whether a file's name is valid UTF-8; Python reads the bytes of other names as unpaired surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in str(path))


def write_lines(path: str | Path, lines: Sequence[str]) -> None:
    """Writes a text file of these lines; without any it removes the file of an earlier run, never a device or link."""
    if not lines:
        if target := _target(Path(path)):
            target.unlink(missing_ok=True)
        return
    write_text(path, "\n".join(lines) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Writes a text in UTF-8, whole or not at all; bytes of file names that are not UTF-8 become escapes."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def read_text(path: str | Path) -> str:
    """A text file in UTF-8, with or without a byte order mark, or in UTF-16 with one, as Windows writes "Unicode".

    Raises:
        InputError: it cannot be read, is neither, or is a device or pipe of more than LARGE_TEXT characters.
    """
    try:
        with Path(path).open("rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            encoding = "utf-16" if file.peek(2).startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
            with TextIOWrapper(file, encoding) as decoded:
                text = decoded.read(-1 if regular else LARGE_TEXT + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        reason = f"not valid UTF-8 (byte {error.start})" if encoding == "utf-8-sig" else "not valid UTF-16"
        raise InputError(f"{path}: {reason}; convert it, such as by iconv -f WINDOWS-1252 -t UTF-8") from error
    if not regular and len(text) > LARGE_TEXT:
        raise InputError(f"{path}: a device or pipe with more than {LARGE_TEXT:,} characters")
    return text


@contextlib.contextmanager
def repeatable(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """The paths of texts that are read several times; a temporary file takes the place of a pipe, or of "-", standard
    input.

    Raises:
        InputError: a pipe cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="ds2-") as folder:
        found = []
        for number, path in enumerate(paths):
            if str(path) == "-" or path.is_fifo():
                found.append(Path(folder) / f"pipe{number}.txt")
                _copy_pipe("/dev/stdin" if str(path) == "-" else path, found[-1])
            else:
                found.append(path)
        yield found


def _copy_pipe(pipe: str | Path, target: Path) -> None:
    try:
        with open(pipe, "rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
    except OSError as error:
        raise InputError(f"{pipe}: cannot be read ({error.strerror})") from error


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, and their numbers, from 1.

    str.splitlines would end lines at U+2028 and U+0085 too, which JSON and sentences hold as they are.
    """
    return ((number, line) for number, line in enumerate(read_text(path).split("\n"), 1) if line.strip())


def text_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file, one after the other, in UTF-8 with or without a byte order mark; gunzipped if NAME.gz.

    Raises:
        InputError: it cannot be read, is not valid UTF-8, has a line beyond MOST_LINE, or unpacks beyond MOST_RATIO.
    """
    path, done = Path(path), 0
    zipped = path.suffix == ".gz"
    try:
        most = max(LARGE_TEXT, MOST_RATIO * path.stat().st_size) if zipped else math.inf
        with (gzip.open if zipped else open)(path, "rt", encoding="utf-8-sig") as file:
            while line := file.readline(MOST_LINE):
                done += len(line)
                if len(line) == MOST_LINE or done > most:
                    raise InputError(f"{path}: a line of {MOST_LINE:,} characters, or packed over {MOST_RATIO} to 1")
                yield line
    except InputError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not valid UTF-8; convert it, or unpack it if it is packed other than as .gz"
        ) from error
