"""Tables in Parquet, a block of rows in memory at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ds2.utils.errors import InputError

if TYPE_CHECKING:
    import pyarrow.parquet


@contextmanager
def opened_table(path: Path) -> Iterator["pyarrow.parquet.ParquetFile"]:
    """A table, opened; its rows are read within.

    Raises:
        InputError: it cannot be read, from its first block to its last, or has values that Python has no form for.
    """
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            yield table
    except InputError:
        raise
    except (OSError, ValueError, OverflowError, MemoryError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: not a readable parquet table ({error!s:.80})") from error
