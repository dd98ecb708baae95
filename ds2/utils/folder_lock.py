"""One process at a time writes into a folder."""

import os
import sys
import weakref
from pathlib import Path

from ds2.utils.errors import InputError

NAME = ".lock"  # of the file in the folder; it holds the number of the last process that had the lock


class FolderLock:
    """Held from the beginning until the context is left, the object or the process ends, however it ends."""

    def __init__(self, folder: Path, name: str = NAME):
        """Takes the lock of a folder, the file `name` in it.

        Raises:
            InputError: another process holds it, or a symbolic link stands in its place.
            OSError: the file cannot be written.
        """
        path = folder / name
        descriptor = _open_file(path)
        self.release = weakref.finalize(self, os.close, descriptor)
        try:
            _lock_descriptor(descriptor)
        except OSError as error:
            holder = os.read(descriptor, 20).decode(errors="replace") or "unknown"
            self.release()
            raise InputError(
                f"{folder}: process {holder} writes into this folder; wait for it to end, or choose another folder"
            ) from error
        try:
            os.truncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        except OSError as error:  # knows no name
            self.release()
            raise OSError(error.errno, error.strerror, str(path)) from error

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.release()


def _open_file(path: Path) -> int:
    """Opens the file of a lock, or makes it; never the target of a link, which would be emptied."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        if path.is_symlink():
            raise InputError(f"{path}: a symbolic link, which a lock may not be; remove it") from error
        raise


def _lock_descriptor(descriptor: int) -> None:
    """A lock of this process: unlike a lock of flock(2), the processes that it forks to load data do not inherit it."""
    if sys.platform != "win32":
        import fcntl

        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
