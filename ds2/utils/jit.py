"""Our kernels: functions that numba compiles at their first call, and keeps for later processes.

kernel(arguments) --> the library of kernels, where there is one      kernel_library.py
                  --> numba, which the first such call imports        kernel_cache.py, kernel_parts.py
"""

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ds2.utils.kernel_library import kinds, linked, traits

_teachers: list[str] = []


class Kernel:
    """A function of arrays and numbers that runs as machine code."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self.forms: dict[tuple[Any, ...], Callable[..., Any] | None] = {}  # that were called, by their traits

    def __call__(self, *arguments: Any) -> Any:
        """Runs the form of its machine code for these types of arguments.

        Raises:
            ModuleNotFoundError: the library lacks this form, and numba is not installed.
        """
        if self.linked:
            key = tuple(traits(arguments, []))
            if key not in self.forms:
                self.forms[key] = self.linked.get(kinds(arguments))
            if form := self.forms[key]:
                return form(*arguments)
        return self.dispatcher(*arguments)

    @property
    def name(self) -> str:
        """As in the library's table."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def folder(self) -> Path:
        """Where its source lies."""
        return Path(self.function.__code__.co_filename).parent

    @functools.cached_property
    def linked(self) -> dict[str, Callable[..., Any]]:
        """Its forms in the library."""
        return linked(self.name)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """numba's, for calls from Python."""
        from ds2.utils.kernel_cache import dispatcher_of, let_kernels_call

        let_kernels_call(Kernel)
        while _teachers:
            importlib.import_module(_teachers.pop())
        return dispatcher_of(self.function, self.options)

    @functools.cached_property
    def part(self) -> Any:
        """numba's, for calls from other kernels, of which it becomes a part."""
        from ds2.utils.kernel_parts import part_of_others

        return part_of_others(self.function, self.options)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """`numba.njit` for a kernel of ds2, with numba's options. All our kernels are made by it."""
    return lambda function: Kernel(function, options)


def taught_by(module: str) -> None:
    """Names the module that tells numba what to compile for a function of Python; only a compilation imports it."""
    _teachers.append(module)


def plain(group: tuple[Any, ...]) -> tuple[Any, ...]:
    """A NamedTuple, and those within it, as plain tuples.

    numba takes 3 us to recognise a NamedTuple among the arguments of a call, a plain tuple costs nothing. A kernel that
    is called for every frame takes plain tuples and names their fields inside.
    """
    return tuple(plain(part) if isinstance(part, tuple) else part for part in group)


# Without the GIL, so that streams are searched in parallel.
compiled = njit(nogil=True)
# For functions that allocate no arrays: reference counting for their arguments, and passing these on the stack,
# took two thirds of a search's time.
without_references = njit(nogil=True, _nrt=False)
inlined = njit(nogil=True, _nrt=False, forceinline=True)
