"""Samples as a FLAC file: in memory, for pages and tables that contain sound, and on the disk."""

import io
from pathlib import Path

import numpy as np
import soundfile

from ds2.audio.files import LOWEST_RATE
from ds2.utils.errors import ParameterError
from ds2.utils.files import atomic_write

HIGHEST_FLAC_RATE = 655_350  # Hz: a header holds no more


def check_sample_rate(sample_rate: int) -> None:
    """Refuses a rate that FLAC cannot hold, or that no file is read at.

    Raises:
        ParameterError: the rate is not from LOWEST_RATE to HIGHEST_FLAC_RATE.
    """
    if not LOWEST_RATE <= sample_rate <= HIGHEST_FLAC_RATE:
        limits = f"{LOWEST_RATE:,} to {HIGHEST_FLAC_RATE:,} Hz"
        raise ParameterError("sample_rate", f"must be from {limits}, got {sample_rate}")


def flac_bytes(samples: np.ndarray, sample_rate: int) -> bytes:
    """(N,) samples, clipped to full scale 1.0, at `sample_rate` Hz -> the bytes of a file of 16 bits."""
    buffer = io.BytesIO()
    soundfile.write(buffer, np.clip(samples, -1.0, 1.0), sample_rate, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()


def write_flac(path: Path, samples: np.ndarray, sample_rate: int) -> None:
    """Writes (N,) samples as `flac_bytes` makes them; libsndfile would not say why a disk does not take them.

    Raises:
        InputError: the file cannot be written.
    """
    with atomic_write(path) as partial:
        partial.write_bytes(flac_bytes(samples, sample_rate))
