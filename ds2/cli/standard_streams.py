"""Standard streams that the user has closed (`ds2 info digits >&-`), and names of files in any bytes."""

import io
import os
import sys
from typing import Any

from ds2.utils.errors import InputError

# A null device opened the wrong way round: reading and writing fail, as they would on the closed descriptor.
WAYS = {"stdin": (os.O_WRONLY, "r"), "stdout": (os.O_RDONLY, "w"), "stderr": (os.O_WRONLY, "w")}

MOST_INPUT = 1 << 30  # bytes that standard input may have: three hours at 48 kHz
BLOCK = 1 << 20  # bytes


def standard_input() -> bytes:
    """All bytes of standard input.

    Raises:
        InputError: it is closed, or does not end within MOST_INPUT.
    """
    data = io.BytesIO()
    try:
        while block := sys.stdin.buffer.read(BLOCK):
            data.write(block)
            if data.tell() > MOST_INPUT:
                raise InputError(f"stdin: more than {MOST_INPUT >> 20} MiB; write them into a file and name the file")
    except OSError as error:
        raise InputError(f"stdin: cannot be read ({error.strerror})") from error
    return data.getvalue()


class _LosingFile(io.FileIO):
    """A file that loses what it cannot take: a warning that a full disk refuses must not end the work."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def prepare_streams() -> None:
    """Gives closed streams a descriptor, lets the others print any name, and standard error lose what finds no room.

    Otherwise the next file to be opened would get the number of the closed descriptor, and what a library prints would
    end in that file.
    """
    for name, (flags, mode) in WAYS.items():  # in the order of their descriptors: each gets the lowest free one
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if (given := sys.stderr) is sys.__stderr__ and given is not None:
        raw = _LosingFile(given.fileno(), "w", closefd=False)
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), given.encoding, "backslashreplace", line_buffering=True)
