"""Which files ds2 wrote itself, and of which recording: extended attributes hold a hash of what it wrote, and a path.

A text that somebody has changed since, or that lies where no such attributes are kept, counts as somebody else's.
"""

import contextlib
import hashlib
import os
from pathlib import Path

ATTRIBUTE, RECORDING = "user.ds2.sha256", "user.ds2.recording"


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


def mark_recording(path: Path, recording: Path) -> None:
    """Notes of which recording a transcript is, where the file system can."""
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(path, RECORDING, os.fsencode(recording.absolute()))


def recording_of(path: Path) -> Path | None:
    """The recording of a transcript, as far as it was noted and is still there."""
    if not hasattr(os, "getxattr"):
        return None
    try:
        recording = Path(os.fsdecode(os.getxattr(path, RECORDING)))
        return recording if recording.exists() else None
    except OSError:
        return None


def _hash(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()
