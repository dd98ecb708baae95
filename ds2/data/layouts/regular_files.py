"""The files of a folder that can be read to their end, and names for files of other folders in one."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 242  # of a file's own name in its other one: file systems allow 255, of which 13 are the sum's


def regular_files(folder: Path, pattern: str) -> Iterator[Path]:
    """The files whose names fit a pattern such as **/*.json; no pipes, which would be waited for without end."""
    return (path for path in folder.glob(pattern) if path.is_file())


def name_by_path(path: Path) -> str:
    """A name in a folder that holds files of others: a sum of the path, and its own name without white space."""
    end = "_".join(path.name.split()).encode()[-MOST_BYTES:].decode(errors="ignore")
    return f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}_{end}"
