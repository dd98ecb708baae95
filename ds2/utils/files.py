"""Files appear whole or not at all."""

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ds2.utils.errors import InputError


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; renames it over `path` when the block ends well.

    On any failure the temporary file is removed and what stood at `path` before stays as it was. The data reach
    the disk before the rename, so that a power cut leaves the old file or the new one, never half of one.

    Raises:
        InputError: the file cannot be written (no folder, no permission, full disk).
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        partial.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path}: cannot be written ({reason}); the previous file, if any, is intact") from error
    finally:
        with contextlib.suppress(OSError):  # a name too long was never made
            partial.unlink(missing_ok=True)


def remove_partials(folder: Path) -> None:
    """Removes the temporary files that `atomic_write` leaves where its process is killed."""
    for partial in folder.rglob(".*.partial"):
        partial.unlink(missing_ok=True)


def check_writable(*paths: Path | None) -> None:
    """Asks before long work whether files can be written at its end; None is a file that nobody wants.

    Raises:
        InputError: there is no such folder, it is not writable, or a folder stands in the file's place.
    """
    for path in paths:
        if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK)):
            raise InputError(f"{path}: cannot be written; name a file in a folder that is there and writable")


def make_folder(path: str | Path) -> None:
    """Makes a folder and those above it, unless they are there.

    Raises:
        InputError: it cannot be made, or not be written into.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot make the folder ({error.strerror})") from error
    if not os.access(path, os.W_OK):
        raise InputError(f"{path}: this folder is not writable")


def in_utf8(path: Path) -> bool:
    """Whether a file's name is; Python reads the bytes of another as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in str(path))


def write_lines(path: str | Path, lines: Sequence[str]) -> None:
    """A text file of these lines; where there are none, no file, and not that of an earlier run either."""
    if not lines:
        Path(path).unlink(missing_ok=True)
        return
    with atomic_write(path) as partial:  # lines may hold names of files, whose bytes need not be UTF-8
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")


def read_text(path: str | Path) -> str:
    """A text file in UTF-8, with or without a byte order mark.

    Raises:
        InputError: it cannot be read, or is no UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no UTF-8 text (byte {error.start}); convert it") from error


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, and their numbers, from 1.

    str.splitlines would end lines at U+2028 and U+0085 too, which JSON and sentences hold as they are.
    """
    return ((number, line) for number, line in enumerate(read_text(path).split("\n"), 1) if line.strip())


def text_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file too large for memory, as `read_text` takes it, or gzipped where its name says so.

    Raises:
        InputError: it cannot be read, or is no UTF-8.
    """
    path = Path(path)
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no UTF-8 text; convert it") from error
