"""Files inside tar archives are read in place: `shard.tar/name.flac` is a path like any other.

An index beside the archive, `shard.tar.index`, says where each member begins; without it the headers are read once.
"""

import contextlib
import functools
import json
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ds2.utils.errors import InputError
from ds2.utils.files import write_text
from ds2.utils.object_storage import fetched, url_of

OPEN = 64  # archives at a time, in each process
DAMAGED = (OSError, EOFError, ValueError, OverflowError, tarfile.TarError, zlib.error, lzma.LZMAError)  # of tarfile

REFUSED = re.compile(r"^/|[\x00-\x1f\x7f]")  # a name that leads out of the archive, or breaks a line of a message
Places = dict[str, tuple[int, int]]  # name of a member -> its first byte in the archive, its size in bytes


def archive_of(path: Path) -> Path | None:
    """The archive that `path` leads into, if any; one in object storage need not be here yet."""
    for parent in path.parents:
        if parent.suffix == ".tar":
            return parent if url_of(parent) or parent.is_file() else None
    return None


def read_member(path: Path, archive: Path) -> bytes:
    """The bytes of the file `path` inside `archive`.

    Raises:
        InputError: there is no such member, or the archive is damaged or cannot be fetched.
    """
    name = path.relative_to(archive).as_posix()
    here = fetched(archive).stat()
    opened = _opened_archive(str(archive), here.st_size, here.st_mtime_ns)  # held until it has been read
    if name not in opened.places:
        raise InputError(f"{path}: {archive.name} has no such file")
    start, size = opened.places[name]
    if start + size > here.st_size:
        there = max(0, here.st_size - start)
        raise InputError(f"{path}: cut off, {there} of {size} bytes are here; copy {archive.name} again")
    data = os.pread(opened.descriptor, size, start)
    if len(data) < size:
        raise InputError(f"{path}: cut off, {len(data)} of {size} bytes are here; copy {archive.name} again")
    return data


def index_path(archive: Path) -> Path:
    """The file beside an archive that holds where its members lie."""
    return archive.with_name(f"{archive.name}.index")


def write_tar_index(archive: Path) -> Places:
    """Reads the headers of an archive and writes its index."""
    places = scan(archive)
    write_text(index_path(archive), json.dumps({"bytes": archive.stat().st_size, "members": places}))
    return places


def scan(archive: Path) -> Places:
    """Reads the headers alone: where each file of an archive lies, in the archive's order.

    Raises:
        InputError: damaged, or not a tar without compression.
    """
    with readable(archive), tarfile.open(archive, "r:") as tar:
        return {member.name: (member.offset_data, member.size) for member in members(tar)}


@contextlib.contextmanager
def readable(name: object) -> Iterator[None]:
    """Turns what tarfile raises for a damaged archive into an InputError."""
    try:
        yield
    except InputError:
        raise
    except DAMAGED as error:
        remedy = "copy it again, or unpack it if it is compressed"
        raise InputError(f"{name}: not a readable tar ({error!s:.100}); {remedy}") from error


def members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The files of an archive. A negative size would lead tarfile back to an earlier header, for ever."""
    for member in tar:
        if member.size < 0:
            raise tarfile.ReadError("a member of negative size")
        if REFUSED.search(member.name):
            raise tarfile.ReadError("a member's name begins with / or holds a control character")
        if member.isfile():
            yield member


class _Opened:
    """An open archive; closed when neither the cache nor a reader refers to it."""

    def __init__(self, archive: Path):
        self.places = _read_index(archive) or scan(archive)
        self.descriptor = os.open(archive, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


@functools.lru_cache(OPEN)
def _opened_archive(archive: str, size: int, changed: int) -> _Opened:
    """Size and time of change distinguish archives of one name."""
    return _Opened(Path(archive))


def _read_index(archive: Path) -> Places | None:
    """None where there is no index, a damaged one, or that of another archive which had this name."""
    try:
        index = json.loads(index_path(archive).read_text(encoding="utf-8"))
        size, made_for = archive.stat().st_size, index["bytes"]
        places = {str(name): (int(start), int(length)) for name, (start, length) in index["members"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    fits = (
        made_for == size
        and not any(map(REFUSED.search, places))
        and all(min(place) >= 0 and sum(place) <= size for place in places.values())
    )
    return places if fits else None
