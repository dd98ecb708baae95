"""Standard streams that the user has closed (`ds2 info digits >&-`), and names of files in any bytes."""

import io
import os
import sys

# A null device opened the wrong way round: reading and writing fail, as they would on the closed descriptor.
WAYS = {"stdin": (os.O_WRONLY, "r"), "stdout": (os.O_RDONLY, "w"), "stderr": (os.O_WRONLY, "w")}


def prepare_streams() -> None:
    """Gives closed streams a descriptor, and lets the others print any name.

    Otherwise the next file to be opened would get the number of the closed descriptor, and what a library prints would
    end in that file.
    """
    for name, (flags, mode) in WAYS.items():  # in the order of their descriptors: each gets the lowest free one
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
