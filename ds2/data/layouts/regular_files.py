"""The files of a folder that can be read to their end."""

from collections.abc import Iterator
from pathlib import Path


def regular_files(folder: Path, pattern: str) -> Iterator[Path]:
    """The files whose names fit a pattern such as **/*.json; no pipes, which would be waited for without end."""
    return (path for path in folder.glob(pattern) if path.is_file())
