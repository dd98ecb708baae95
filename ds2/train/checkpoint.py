"""Checkpoints: everything that a run needs to continue as if it had never stopped."""

import io
import pickletools
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write

REMEDY = "remove it to train from the start"
ARCHIVE = b"PK\3\4"
MADE_OF = re.compile(r"collections OrderedDict|torch\._utils _rebuild_tensor_v2|torch (?!Untyped|Typed)\w+Storage")


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes tensors and plain values, whole or not at all; a full disk leaves the earlier checkpoint intact."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    with atomic_write(path) as partial:
        partial.write_bytes(buffer.getbuffer())


def load_checkpoint(path: Path, *keys: str) -> dict[str, Any]:
    """Reads a checkpoint onto the CPU; executes nothing from the file, and takes no more memory than it holds.

    A checkpoint is a zip archive with a CRC-32 of each part. torch does not compare them, so this does.

    Raises:
        InputError: damaged, with values that are larger than the file, or without one of these keys.
    """
    state: Any = None
    try:
        fault = _fault_of_archive(path)
        if not fault:
            with warnings.catch_warnings(action="ignore"):  # torch describes a damaged pickle in several lines
                state = torch.load(path, map_location="cpu", weights_only=True)
            fault = _fault_of_values(state, path.stat().st_size)
    except Exception as error:  # zipfile and torch raise many types for a damaged file
        raise InputError(f"{path}: damaged checkpoint; {REMEDY}") from error
    if fault:
        raise InputError(f"{path}: damaged checkpoint, {fault}; {REMEDY}")
    if not isinstance(state, dict) or not set(keys) <= state.keys():
        raise InputError(f"{path}: not a checkpoint of a training; {REMEDY}")
    return state


def _fault_of_archive(path: Path) -> str:
    """What is wrong with it before torch sees it; empty if nothing is."""
    with path.open("rb") as file:
        if file.read(len(ARCHIVE)) != ARCHIVE:  # torch would read it as its form of before 2020
            return "it does not begin as an archive"
    with zipfile.ZipFile(path) as archive:
        if sum(part.file_size for part in archive.infolist()) > path.stat().st_size:  # packed, or parts that overlap
            return "its parts are larger than the file"
        if damaged := archive.testzip():
            return f"the checksum of {damaged} is wrong"
        for name in archive.namelist():
            if name.endswith("data.pkl"):
                names = (name for code, name, _ in pickletools.genops(archive.read(name)) if "GLOBAL" in code.name)
                if strange := [name for name in names if not MADE_OF.fullmatch(str(name))]:
                    return f"{strange[0]} is nothing of a training"
    return ""


def _fault_of_values(state: object, size: int) -> str:
    """A tensor can claim any shape with strides of 0: together they may hold no more than `size` bytes."""
    held, seen, waiting = 0, set(), [state]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        match value:
            case dict():
                waiting += [*value.keys(), *value.values()]
            case list() | tuple():
                waiting += value
            case torch.Tensor():
                held += value.nbytes
    return f"its tensors claim {held:,} bytes, the file holds {size:,}" if held > size else ""
