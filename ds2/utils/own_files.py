"""Which files ds2 wrote itself: an extended attribute holds a hash of what it wrote.

A text that somebody has changed since, or that lies where no such attributes are kept, counts as somebody else's.
"""

import contextlib
import hashlib
import os
from pathlib import Path

ATTRIBUTE = "user.ds2.sha256"


def mark_own(path: Path) -> None:
    """Notes that a file is as ds2 wrote it, where the file system can."""
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(path, ATTRIBUTE, _hash(path))


def is_own(path: Path) -> bool:
    """Whether ds2 wrote a file, and nobody changed it since."""
    if not hasattr(os, "getxattr"):
        return False
    try:
        return os.getxattr(path, ATTRIBUTE) == _hash(path)
    except OSError:
        return False


def _hash(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()
