"""Checkpoints: everything that a run needs to go on as if it had never stopped."""

import io
from pathlib import Path
from typing import Any

import torch

from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes tensors and plain values, whole or not at all; a full disk leaves the earlier checkpoint intact."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    with atomic_write(path) as partial:
        partial.write_bytes(buffer.getbuffer())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint onto the CPU; executes nothing from the file.

    Raises:
        InputError: damaged or not a checkpoint.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for one fact
        raise InputError(f"{path}: damaged checkpoint; remove it to train from the start") from error
    return state
