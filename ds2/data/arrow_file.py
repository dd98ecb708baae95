"""Arrow files that are mapped into memory; compressed ones, which would unpack into it, are refused."""

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from ds2.utils.errors import InputError

if TYPE_CHECKING:
    import pyarrow

MAGIC_BYTES = 8  # before the first message
# Positions of fields in the tables of Arrow's Message.fbs
HEADER, COMPRESSION = 2, 3


def mapped_batches(path: Path, schema: "pyarrow.Schema") -> "list[pyarrow.RecordBatch] | None":
    """The blocks of a file, which lie in the mapping and not in memory; None where its schema is another one.

    Raises:
        pyarrow.ArrowException, OSError, struct.error: damaged.
        InputError: compressed, so that a few kilobytes could hold gigabytes.
    """
    import pyarrow

    file = pyarrow.memory_map(str(path))
    reader = pyarrow.ipc.open_file(file)
    if not reader.schema.equals(schema, check_metadata=True):
        return None
    # The messages one after the other, not where the file's end says that they lie: what is checked is what is read.
    file.seek(MAGIC_BYTES)
    messages = list(pyarrow.ipc.MessageReader.open_stream(file))[1:]  # behind the schema
    if any(_is_compressed(message.metadata) for message in messages):
        raise InputError(f"{path}: a compressed table; compile the manifest again")
    batches = [pyarrow.ipc.read_record_batch(message, schema) for message in messages]
    if len(batches) != reader.num_record_batches:
        raise pyarrow.ArrowInvalid(f"{len(batches)} of {reader.num_record_batches} blocks are there")
    return batches


def _is_compressed(message: "pyarrow.Buffer") -> bool:
    """Whether the header of a message, a table of FlatBuffers, says that its block is compressed."""
    data = memoryview(message)
    header = _field(data, _followed(data, 0), HEADER)
    return header is not None and _field(data, _followed(data, header), COMPRESSION) is not None


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Where a field of a table lies; None where it is left out."""
    index = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number  # behind the sizes of the index and of the table
    if place >= struct.unpack_from("<H", data, index)[0]:
        return None
    offset = struct.unpack_from("<H", data, index + place)[0]
    return table + offset if offset else None


def _followed(data: memoryview, place: int) -> int:
    """Where an offset leads."""
    return place + int(struct.unpack_from("<I", data, place)[0])
