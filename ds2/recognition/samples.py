"""Inputs that can be transcribed besides a path: the bytes of a file, an open file, samples."""

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ds2.data.sound import read_sound_bytes, resample_sound
from ds2.utils.errors import ParameterError

if TYPE_CHECKING:
    from torch import Tensor


def to_samples(audio: "bytes | BinaryIO | Tensor | np.ndarray", sample_rate: int | None, model_rate: int) -> np.ndarray:
    """(N,) samples at the model's rate (Hz).

    Raises:
        InputError: bytes that are not audio.
        ParameterError: samples that are empty, not finite, not one-dimensional or without a sample rate; a text file.
    """
    if isinstance(audio, bytes):
        return read_sound_bytes(audio, model_rate, "audio")[0]
    if hasattr(audio, "read"):
        if isinstance(data := audio.read(), str):
            raise ParameterError("audio", "this file is opened as text; open it in binary mode, 'rb'")
        return read_sound_bytes(data, model_rate, str(getattr(audio, "name", "audio")))[0]
    if sample_rate is None:
        raise ParameterError("sample_rate", "required for samples: transcribe(samples, sample_rate=16000)")
    return resample_sound(checked_samples(audio), sample_rate, model_rate)


def checked_samples(audio: "Tensor | np.ndarray") -> np.ndarray:
    """(N,) float32, full scale 1.0.

    Raises:
        ParameterError: samples that are empty, not finite or not one-dimensional.
    """
    samples = np.asarray(audio, dtype=np.float32)
    if samples.ndim != 1 or samples.size == 0 or not np.isfinite(samples).all():
        raise ParameterError("audio", f"expected (N,) finite samples, got shape {samples.shape}")
    return samples
