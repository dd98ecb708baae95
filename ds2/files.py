"""Files appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ds2.errors import InputError


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
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
