"""Checkpoints: everything that a run needs to continue as if it had never stopped."""

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write

REMEDY = "remove it to train from the start"


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes tensors and plain values, whole or not at all; a full disk leaves the earlier checkpoint intact."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    with atomic_write(path) as partial:
        partial.write_bytes(buffer.getbuffer())


def load_checkpoint(path: Path, *keys: str) -> dict[str, Any]:
    """Reads a checkpoint onto the CPU; executes nothing from the file.

    A checkpoint is a zip archive with a CRC-32 of each part. torch does not compare them, so this does.

    Raises:
        InputError: damaged, or without one of these keys.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        with warnings.catch_warnings(action="ignore"):  # torch describes a damaged pickle in several lines
            state = None if damaged else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zipfile and torch raise many types for a damaged file
        raise InputError(f"{path}: damaged checkpoint; {REMEDY}") from error
    if damaged:
        raise InputError(f"{path}: damaged checkpoint, the checksum of {damaged} is wrong; {REMEDY}")
    if not isinstance(state, dict) or not set(keys) <= state.keys():
        raise InputError(f"{path}: not a checkpoint of a training; {REMEDY}")
    return state
