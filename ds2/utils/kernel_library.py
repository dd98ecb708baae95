"""The library of kernels: machine code that Python loads by itself, so that neither numba nor its compiler is needed.

`kernel_linker.py` makes it, for one processor. Beside it lies a table of what it holds:

    "ds2.decoder.search.search": {kinds of the arguments: name in the library, ...}, ...
"""

import functools
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from ds2.utils.processor import processor_line

logger = logging.getLogger(__name__)

PACKAGE = Path(__file__).parents[1]
MODULE = "ds2_kernels"
NAME = "NUMBA_CPU_NAME"
KINDS: dict[type, str] = {
    bool: "b", np.bool_: "b", int: "i", np.int64: "i", float: "d", np.float64: "d", np.float32: "f", type(None): "n",
}  # fmt: skip
NEEDED = {"x86-64-v3": "avx2", "x86-64-v4": "avx512bw"}  # what stands for all that processors of a name can do
# In the bits of an array's flags: in C's order, in Fortran's, aligned, writeable.
IN_C_ORDER, IN_FORTRAN_ORDER, OTHERS = 0x1, 0x2, 0x500
ORDERS = IN_C_ORDER | IN_FORTRAN_ORDER | OTHERS


def kinds(values: Iterable[Any]) -> str:
    """What distinguishes the forms of a kernel's machine code: types, dimensions and orders of its arguments.

    As numba does: NamedTuples of two classes differ, and an array that cannot be written differs from one that can.
    """
    return ",".join(map(_kind, values))


def _kind(value: Any) -> str:
    if type(value) is np.ndarray:
        flags = value.flags.num
        order = "C" if flags & IN_C_ORDER else "F" if flags & IN_FORTRAN_ORDER else "A"
        return f"{value.dtype.str}{value.ndim}{order}{flags & OTHERS}"
    if isinstance(value, tuple):
        name = "" if type(value) is tuple else type(value).__name__
        return f"{name}({','.join(map(_kind, value))})"
    return KINDS.get(type(value), type(value).__name__)


def traits(values: Iterable[Any], found: list[Any]) -> list[Any]:
    """Appends what `kinds` is made of, as it stands, in a third of the time: the search has 50 arrays at each step.

    Of equal traits the kinds are equal, in the same process.
    """
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            found += value.dtype, value.flags.num & ORDERS | value.ndim << 16
        elif isinstance(value, tuple):
            found += kind, len(value)
            traits(value, found)
        else:
            found.append(kind)
    return found


def linked(kernel: str) -> dict[str, Callable[..., Any]]:
    """The forms of a kernel, such as "ds2.decoder.search.search", that the library holds, by `kinds` of arguments."""
    module, table = _found_library()
    return {key: getattr(module, name) for key, name in table.get(kernel, {}).items()}


def library_place() -> Path | None:
    """The file of the library that this process uses, None if it uses none."""
    module = _found_library()[0]
    return None if module is None else Path(module.__file__)


@functools.cache
def _found_library() -> tuple[Any, dict[str, dict[str, str]]]:
    """The library and its table of kernels; an empty one where none fits this Python, processor and these sources.

    Nor if DS2_KERNELS is "numba": to measure what the library gives, or to debug a kernel.
    """
    if os.environ.get("DS2_KERNELS") == "numba":
        return None, {}
    for path in [*library_places(), *_for_many_processors()]:
        try:
            table = json.loads(path.with_suffix(".json").read_text())
            if (needed := NEEDED.get(os.environ.get(NAME, ""), "")) not in processor_line():
                raise ImportError(f"this processor lacks {needed}")
            rooms = table["rooms"]
            if table["stamp"] == stamp_of_sources(rooms) or table["digest"] == digest_of_sources(rooms):
                return _imported(path), table["kernels"]
        except FileNotFoundError:
            continue
        except (OSError, ImportError, ValueError, KeyError) as error:
            logger.warning("%s: not used: %s", path, error)
    return None, {}


def _imported(path: Path) -> Any:
    spec = spec_from_file_location(MODULE, path, loader=ExtensionFileLoader(MODULE, str(path)))
    assert spec is not None and spec.loader is not None  # noqa: PT018  # both are given
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library_places() -> list[Path]:
    """Where a library for this Python and processor may lie: in the package, and in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ds2" / "kernels"
    name = _library_name(_processor())
    return [PACKAGE / "compiled" / name, cache / name]


def _for_many_processors() -> list[Path]:
    """The libraries that a wheel may hold and that this processor can run, unless NUMBA_CPU_NAME wants another one."""
    able = [name for name, needed in NEEDED.items() if needed in processor_line() and NAME not in os.environ]
    return [PACKAGE / "compiled" / _library_name(name) for name in reversed(able)]


def _library_name(processor: str) -> str:
    return f"{MODULE}-{processor}{EXTENSION_SUFFIXES[0]}"


def _processor() -> str:
    """The processor that numba compiles for: the one that NUMBA_CPU_NAME names, or a hash of what this one can do."""
    return os.environ.get(NAME) or hashlib.sha256(processor_line().encode()).hexdigest()[:16]


def stamp_of_sources(rooms: list[str]) -> str:
    """A hash of the sizes and times of the sources in folders of the package: quick to tell that nothing changed."""
    found = [
        (path.name, status.st_size, status.st_mtime_ns) for path in kernel_sources(rooms) for status in [path.stat()]
    ]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def digest_of_sources(rooms: list[str]) -> str:
    """A hash of the sources themselves, in folders of the package."""
    hashed = hashlib.sha256()
    for path in kernel_sources(rooms):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def kernel_sources(rooms: list[str]) -> list[Path]:
    """The files of Python in these folders of the package."""
    return [path for room in rooms for path in sorted((PACKAGE / room).glob("*.py"))]
