"""Tables in Parquet, a block of rows in memory at a time.

A few kilobytes can hold gigabytes: pages are compressed, and one value is repeated for millions of rows. So a table has
a limit of what it unpacks to, by its size, and texts stay in dictionaries until their sizes are known.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds2.utils.errors import InputError
from ds2.utils.files import LARGE_TEXT, MOST_RATIO

if TYPE_CHECKING:
    import pyarrow.parquet

ROW_BYTES = 64  # that a row counts besides its texts
VALUE_BYTES = 8  # that each value counts


@contextmanager
def opened_table(path: Path, strings: Sequence[str] = ()) -> Iterator["pyarrow.parquet.ParquetFile"]:
    """A table, opened; its rows are read within, the columns `strings` as dictionaries.

    Raises:
        InputError: it cannot be read, from its first block to its last, has values that Python has no form for, or
            unpacks to far more than its size.
    """
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, read_dictionary=list(strings)) as table:
            about = table.metadata
            # Sizes of row groups alone: those of their columns end the process where a damaged file's do not fit.
            unpacked = sum(abs(about.row_group(number).total_byte_size) for number in range(about.num_row_groups))
            values = VALUE_BYTES * about.num_rows * about.num_columns
            refuse_bomb(path, unpacked + values + ROW_BYTES * about.num_rows)
            yield table
    except InputError:
        raise
    except (OSError, ValueError, OverflowError, MemoryError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: not a readable parquet table ({error!s:.80})") from error


def refuse_bomb(path: Path, unpacked: int) -> None:
    """Refuses a file that holds so many bytes more than it has."""
    if unpacked > max(LARGE_TEXT, MOST_RATIO * path.stat().st_size):
        raise InputError(f"{path}: unpacks to {unpacked / 1e9:.1f} GB, over {MOST_RATIO} times its size")


def plain_columns(table: "pyarrow.parquet.ParquetFile") -> list[str]:
    """The columns, and fields of columns, that are not lists."""
    columns = map(table.schema.column, range(len(table.schema)))
    return [column.path for column in columns if column.max_repetition_level == 0]


def iter_rows(path: Path, table: "pyarrow.parquet.ParquetFile", columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of these columns, one in memory at a time: for recordings, which are large.

    Raises:
        InputError: they unpack to far more than the size of the file.
    """
    unpacked = 0
    for batch in table.iter_batches(1, columns=columns):
        unpacked += batch.nbytes
        refuse_bomb(path, unpacked)
        yield from batch.to_pylist()


def iter_blocks(path: Path, rows: int) -> Iterator[list[dict[str, Any]]]:
    """All rows of a table, up to so many at a time, without columns that hold lists: their sizes are not known before.

    Raises:
        InputError: as `opened_table`.
    """
    with opened_table(path) as table:
        columns = plain_columns(table)
        schema = [table.schema.column(number) for number in range(len(table.schema))]
        strings = [column.path for column in schema if column.physical_type == "BYTE_ARRAY"]
    unpacked = 0
    with opened_table(path, strings) as table:
        for batch in table.iter_batches(rows, columns=columns):
            unpacked += _text_bytes(batch) + ROW_BYTES * len(batch)
            refuse_bomb(path, unpacked)
            for part in _parts(batch):
                yield part.to_pylist()


def _parts(batch: "pyarrow.RecordBatch") -> "Iterator[pyarrow.RecordBatch]":
    """Neighbouring rows whose texts together stay below LARGE_TEXT, or one row."""
    if len(batch) < 2 or _text_bytes(batch) <= LARGE_TEXT:
        yield batch
        return
    half = len(batch) // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


def _text_bytes(batch: "pyarrow.RecordBatch") -> int:
    """Bytes of the texts of all rows, repeated ones counted as often as they stand there."""
    return sum(map(_bytes_in, batch.columns))


def _bytes_in(column: "pyarrow.Array") -> int:
    import pyarrow
    import pyarrow.compute

    if pyarrow.types.is_dictionary(column.type):
        lengths = pyarrow.compute.binary_length(column.dictionary).cast("int64")
        return int(pyarrow.compute.sum(lengths.take(column.indices)).as_py() or 0)
    return sum(map(_bytes_in, column.flatten())) if pyarrow.types.is_struct(column.type) else 0
