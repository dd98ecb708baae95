"""libmpg123, within libsndfile, prints lines of its own on standard error, which name no file and cannot be put off."""

import contextlib
import ctypes
import platform
from collections.abc import Iterator

_silent: set[object] = set()  # the blocks that last; of several threads, hence no lock that a fork would keep


@contextlib.contextmanager
def no_c_messages() -> Iterator[None]:
    """What C code prints on `stderr` within the block is lost; Python's standard error is not touched.

    C code names `stderr` by a variable, which points to another stream for so long. With GNU's C library alone: others
    have a constant there.
    """
    if _STREAMS is None:
        yield
        return
    variable, stderr, nowhere = _STREAMS
    block = object()
    _silent.add(block)
    variable.value = nowhere
    try:
        yield
    finally:
        _silent.discard(block)
        if not _silent:
            variable.value = stderr


class _Functions(ctypes.Structure):
    """cookie_io_functions_t; a stream without any discards what is written."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("read", "write", "seek", "close")]


def _streams() -> tuple[ctypes.c_void_p, int | None, int] | None:
    """C's variable `stderr`, what it holds, and a stream that keeps nothing; None where it cannot be changed."""
    if platform.libc_ver()[0] != "glibc":
        return None
    library = ctypes.CDLL(None)
    library.fopencookie.restype = ctypes.c_void_p
    library.fopencookie.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _Functions]
    nowhere = library.fopencookie(None, b"w", _Functions())
    variable = ctypes.c_void_p.in_dll(library, "stderr")
    return (variable, variable.value, nowhere) if nowhere else None


_STREAMS = _streams()  # as the module is imported: once, whatever the threads
