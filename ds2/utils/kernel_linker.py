"""Makes the library of kernels: what numba compiles, in one file that Python loads without numba (kernel_library.py).

numba's own compiler ahead of time (pycc) needs the types of all arguments beforehand. Here a program runs with each
kernel that is called, and notes them.
"""

import contextlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write
from ds2.utils.jit import Kernel
from ds2.utils.kernel_cache import folders_called
from ds2.utils.kernel_library import MODULE, PACKAGE, digest_of_sources, kinds, library_places, stamp_of_sources

Calls = dict[Kernel, dict[str, tuple[Any, ...]]]  # the kinds of arguments of each kernel, and numba's types of them
Forms = dict[tuple[Kernel, tuple[Any, ...]], str]  # the name of each form in the library


@contextlib.contextmanager
def noting_calls() -> Iterator[Calls]:
    """Yields the calls of kernels by this process, which grow while the block runs."""
    calls: Calls = {}

    def call(kernel: Kernel, *arguments: Any) -> Any:
        types = tuple(map(kernel.dispatcher.typeof_pyval, arguments))
        calls.setdefault(kernel, {}).setdefault(kinds(arguments), types)
        return kernel.dispatcher(*arguments)

    with patch.object(Kernel, "__call__", call):
        yield calls


def link(calls: Calls) -> Path:
    """Compiles these forms of kernels into a library for this processor, or the one that NUMBA_CPU_NAME names.

    Raises:
        InputError: there is no compiler of C++, or no folder that can be written.
    """
    names: dict[str, dict[str, str]] = {}
    forms: Forms = {}
    for kernel, kinds_of_arguments in calls.items():
        own = names.setdefault(kernel.name, {})
        for kind, types in kinds_of_arguments.items():
            own[kind] = forms.setdefault((kernel, types), f"kernel_{len(forms)}")
    rooms = sorted({str(folder.relative_to(PACKAGE)) for kernel in calls for folder in folders_called(kernel.folder)})
    table = {"kernels": names, "rooms": rooms, "stamp": stamp_of_sources(rooms), "digest": digest_of_sources(rooms)}
    target = _writable_place()
    with tempfile.TemporaryDirectory() as folder:
        built = _compile(forms, Path(folder))
        target.with_suffix(".json").unlink(missing_ok=True)  # a library without a table is not used
        with atomic_write(target) as partial:
            shutil.copyfile(built, partial)
        with atomic_write(target.with_suffix(".json")) as partial:
            partial.write_text(json.dumps(table))
    return target


def _writable_place() -> Path:
    for path in library_places():
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                return path
    raise InputError("no folder for the library of kernels can be written; set XDG_CACHE_HOME to one that can")


def _compile(forms: Forms, folder: Path) -> Path:
    try:
        return _compile_by_pycc(forms, folder)
    except Exception as error:  # setuptools has many, of its own modules
        reason = str(error).partition(chr(10))[0]
        raise InputError(
            f"{reason}; a library needs setuptools, compilers of C and C++, and Python's headers (g++, python3-dev)"
        ) from error


def _compile_by_pycc(forms: Forms, folder: Path) -> Path:
    from numba.core import config

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pycc will have a successor one day
        from numba.pycc import CC, compiler

    linker = CC(MODULE)
    linker.output_dir, linker.output_file = str(folder), f"{MODULE}.so"
    linker.target_cpu = config.CPU_NAME or "host"  # type: ignore[attr-defined]
    for (kernel, types), name in forms.items():
        returned = kernel.dispatcher.overloads[types].signature.return_type
        linker.export(name, returned(*types))(kernel.function)
    with patch.object(
        compiler, "compile_extra", _with_options(compiler.compile_extra, [kernel for kernel, _ in forms])
    ):
        linker.compile()
    return folder / f"{MODULE}.so"


def _with_options(compile_function: Callable[..., Any], kernels: list[Kernel]) -> Callable[..., Any]:
    """pycc compiles all functions with the same options; this gives each its kernel's."""
    dispatchers = {kernel.function: kernel.dispatcher for kernel in kernels}

    def compile_one(
        typing: Any, context: Any, function: Any, arguments: Any, returned: Any, flags: Any, **others: Any
    ) -> Any:
        own, dispatcher = flags.copy(), dispatchers[function]
        dispatcher.targetdescr.options.parse_as_flags(own, dispatcher.targetoptions)
        own.no_compile, own.no_cpython_wrapper, own.release_gil = True, False, True
        return compile_function(typing, context, function, arguments, returned, own, **others)

    return compile_one
