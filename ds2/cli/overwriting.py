"""Outputs that are inputs too: no command may write over what it reads."""

import dataclasses
import inspect
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ds2.utils.errors import InputError, ParameterError
from ds2.utils.model_names import named_models

WRITTEN = {"output", "listing", "page", "calibration", "picture", "report"}  # parameters that name files to write


def refuse_overwriting(inputs: Iterable[Path], outputs: Iterable[Path | None]) -> None:
    """Refuses an output that is an input too: it would be lost.

    Raises:
        InputError: naming the file.
    """
    there = [path for path in outputs if path is not None and os.path.exists(path)]
    if not there:  # mostly, and the inputs may be many
        return
    read = {path.resolve() for path in set(inputs)}
    for path in there:
        if path.resolve() in read:
            raise InputError(f"{path}: is an input and would be overwritten; name another output")


def check_arguments(command: Any, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Refuses arguments of a command that name a file to read and to write.

    A model that a command changes in place, where no output is named, may also be named as the output.

    Raises:
        InputError: naming the file.
    """
    signature = inspect.signature(command)
    given = signature.bind(*values, **named).arguments
    in_place = "output" in signature.parameters and signature.parameters["output"].default is None
    found = [(name, path) for key, value in given.items() for name, path in _paths(key, value)]
    outputs = [path for name, path in found if name in WRITTEN and path.is_file()]
    inputs = [path for name, path in found if name not in WRITTEN and not (in_place and name == "model")]
    if outputs:  # seldom: the inputs may be thousands of files
        refuse_overwriting(inputs, outputs)


def _paths(name: str, value: Any) -> Iterator[tuple[str, Path]]:
    """Each file that a parameter may name, with the name of the parameter."""
    if isinstance(value, str | Path):
        if "\0" not in str(value):
            yield name, Path(value)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _paths(field.name, getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _paths(name, each)


def check_bundle_name(output: Path | None) -> None:
    """Refuses a bundle under a name that belongs to another kind of file: one that is there would be lost."""
    if output is not None and output.suffix != ".safetensors":
        raise ParameterError("output", f"{output}: the name of a bundle ends in .safetensors")


def check_bundle_output(output: Path | None, model: Path) -> None:
    """Refuses a model by name where its own file would be written, for which only its path asks; see also
    `check_bundle_name`."""
    check_bundle_name(output)
    if output is None and not model.exists() and str(model) in named_models():
        raise ParameterError("output", f"{model} is a model of the package or was pulled; name the file to write")
