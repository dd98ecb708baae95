"""The folder of this machine that mirrors object storage: its limit, and the files that make room for others."""

import contextlib
import fcntl
import math
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ds2.utils.errors import InputError

IN_USE = 60.0  # seconds since its last use in which a file is not removed
GB = 10**9


@contextlib.contextmanager
def locked_record(path: Path, mode: int = 0) -> Iterator[IO[str]]:
    """The file beside `path` that holds its version, locked: other processes and threads wait for it.

    Raises:
        BlockingIOError: one of them holds it, and `mode` is `fcntl.LOCK_NB`.
    """
    with path.with_name(f".{path.name}.version").open("a+") as record:
        fcntl.flock(record, fcntl.LOCK_EX | mode)
        record.seek(0)
        yield record


def mark_used(path: Path) -> None:
    """Keeps a file from being removed for the next IN_USE seconds; one of another user keeps its time."""
    with contextlib.suppress(PermissionError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def make_room(size: int) -> None:
    """Removes the files that were used longest ago, so that one of `size` bytes finds room in the mirror."""
    most = cache_limit()
    there = [(path, about) for path in mirror_folder().rglob("[!.]*") if (about := _about(path))]
    filled = size + sum(about.st_size for _, about in there)
    for path, about in sorted(there, key=lambda item: item[1].st_atime):
        if filled <= most:
            return
        if _removed(path):
            filled -= about.st_size


def _about(path: Path) -> os.stat_result | None:
    """The size and times of a file; None of a folder, and of what another process has removed."""
    with contextlib.suppress(FileNotFoundError):
        return about if stat.S_ISREG((about := path.stat()).st_mode) else None
    return None


def _removed(path: Path) -> bool:
    """Removes a file of the mirror that nobody is about to read: whoever wants it locks its record and then uses it."""
    try:
        with locked_record(path, fcntl.LOCK_NB):
            about = _about(path)
            if about and abs(time.time() - about.st_atime) < IN_USE:  # the clock may have been set back
                return False
            path.unlink(missing_ok=True)
            return True
    except BlockingIOError:
        return False


def cache_limit() -> float:
    """Bytes that the mirror may hold.

    Raises:
        InputError: `DS2_CACHE_GB` is no number above 0.
    """
    given = os.environ.get("DS2_CACHE_GB") or "100"
    with contextlib.suppress(ValueError):
        if 0 < (most := float(given)) < math.inf:
            return most * GB
    raise InputError(f"DS2_CACHE_GB: {given}: expected a number of gigabytes above 0, such as 100")


def mirror_folder() -> Path:
    """The folder of this machine that mirrors all storages."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("DS2_CACHE") or os.path.join(home, "ds2", "remote"))
