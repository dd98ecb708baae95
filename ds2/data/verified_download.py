"""Files whose size and SHA-256 are known beforehand: they resume, are checked, and appear whole or not at all.

.NAME.1f3870be274f6c49.part     what has arrived; a later try goes on behind it, and another content has another name
NAME                            the file, once its sum is right
"""

import contextlib
import errno
import fcntl
import hashlib
import http.client
import os
import shutil
import time
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ds2.data.https_files import receive
from ds2.utils.errors import InputError
from ds2.utils.files import to_disk

WAITS = (0.5, 2.0, 8.0)  # seconds before another try, after one that failed
LATER = (408, 429)  # a client's errors after which another try can succeed
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class KnownFile:
    """What a file must be, and where it is.

    Attributes:
        source: a URL, or a path of this machine.
        size: bytes.
        sha256: in lower-case hexadecimal digits.
    """

    source: str
    size: int
    sha256: str

    def is_at(self, path: Path) -> bool:
        """Whether `path` holds this very file."""
        return path.is_file() and path.stat().st_size == self.size and digest_of(path) == self.sha256


def digest_of(path: Path, kind: str = "sha256") -> str:
    """The sum of a file, md5 or sha256, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def fetch_known(file: KnownFile, path: Path) -> bool:
    """Puts a file at `path`, unless it is there; returns whether it had to be fetched.

    Processes that fetch the same file wait for one another. A process that is killed leaves what has arrived.

    Raises:
        InputError: it cannot be fetched or written, or it is not the known file; then what has arrived is removed.
    """
    partial = path.with_name(f".{path.name}.{file.sha256[:16]}.part")
    try:
        if file.is_at(path):
            return False
        with _appending(partial) as sink:
            if file.is_at(path):
                partial.unlink()
                return False
            _fill(file, sink, path.name)
            if digest_of(partial) != file.sha256:
                partial.unlink()
                raise InputError(f"{file.source}: not the file that the index names (SHA-256); removed, fetch it again")
            to_disk(partial)
            partial.replace(path)
            to_disk(path.parent)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); a later try goes on from here") from error
    return True


@contextlib.contextmanager
def _appending(partial: Path) -> Iterator[IO[bytes]]:
    """A file to append to, held by one process at a time."""
    while True:
        with partial.open("ab") as sink:
            fcntl.flock(sink, fcntl.LOCK_EX)
            # The process before may have renamed it to its place, which nobody may write to.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(sink.fileno()), partial.stat()):
                    yield sink
                    return


def _fill(file: KnownFile, sink: IO[bytes], name: str) -> None:
    """Appends what a file lacks, in several tries.

    Raises:
        InputError: no room, or no try succeeds.
        OSError: it cannot be written.
    """
    if sink.tell() > file.size:
        sink.truncate(0)
    room = shutil.disk_usage(Path(sink.name).parent).free
    if room < (lacking := file.size - sink.tell()):
        raise InputError(f"{sink.name}: no room ({room / 1e6:,.0f} MB free, {lacking / 1e6:,.0f} MB needed)")
    for wait in (*WAITS, None):
        try:
            receive(file.source, sink, name, file.size)
            return
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) in FULL:
                raise
            hopeless = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code not in LATER
            if wait is None or hopeless:
                reason = " ".join(str(error).split()) or type(error).__name__
                advice = f"run it again to go on behind {sink.tell():,} bytes"
                raise InputError(f"{file.source}: cannot be fetched ({reason:.200}); {advice}") from error
        time.sleep(wait)
