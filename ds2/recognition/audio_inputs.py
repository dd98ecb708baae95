"""Inputs that can be transcribed besides a path: the bytes of a file, an open file, samples, and a stream of these."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import soxr

from ds2.audio.files import read_audio_bytes_array, resample_array
from ds2.utils.errors import ParameterError

if TYPE_CHECKING:
    from torch import Tensor

FULL_SCALE = {  # offset and full scale of integers in WAV files
    np.dtype(np.uint8): (128, 128),
    np.dtype(np.int16): (0, 1 << 15),
    np.dtype(np.int32): (0, 1 << 31),
}
LOUDEST = 100.0  # of floats, whose full scale is 1.0: above it they were scaled as integers are


def to_samples(audio: "bytes | BinaryIO | Tensor | np.ndarray", sample_rate: int | None, model_rate: int) -> np.ndarray:
    """(N,) samples at the model's rate (Hz).

    Raises:
        InputError: bytes that are not audio.
        ParameterError: samples that `checked_samples` refuses or without a sample rate; a text file; a list of paths.
    """
    if isinstance(audio, bytes):
        return read_audio_bytes_array(audio, model_rate, "audio")[0]
    if hasattr(audio, "read"):
        if isinstance(data := audio.read(), str):
            raise ParameterError("audio", "this file is opened as text; open it in binary mode, 'rb'")
        return read_audio_bytes_array(data, model_rate, str(getattr(audio, "name", "audio")))[0]
    if audio is None or isinstance(audio, dict | int | float):
        raise ParameterError("audio", f"expected a path, bytes, a file or samples, got {type(audio).__name__}")
    if isinstance(audio, Sequence) and audio and isinstance(audio[0], str | os.PathLike):
        raise ParameterError("audio", "one recording is expected, not several; transcribe_files takes a list of paths")
    if sample_rate is None:
        raise ParameterError("sample_rate", "required for samples: transcribe(samples, sample_rate=16000)")
    return resample_array(checked_samples(audio), sample_rate, model_rate)


def checked_samples(audio: "Tensor | np.ndarray") -> np.ndarray:
    """(N,) float32, full scale 1.0, of floats or of integers as they stand in a WAV file: uint8, int16 or int32.

    Raises:
        ParameterError: samples that are empty, not finite, of several channels, of another scale, or of another kind.
    """
    found = np.asarray(audio)
    if found.ndim == 2 and found.size:
        channels = int(np.argmin(found.shape))
        raise ParameterError(
            "audio", f"expected (N,) samples of one channel, got shape {found.shape}; average them: .mean({channels})"
        )
    if found.dtype.kind in "iu":
        if found.dtype not in FULL_SCALE:
            raise ParameterError("audio", f"{found.dtype} has no known full scale; give int16, or floats up to 1.0")
        offset, scale = FULL_SCALE[found.dtype]
        found = (found.astype(np.float64) - offset) / scale
    if found.ndim != 1 or found.size == 0 or found.dtype.kind != "f":
        raise ParameterError("audio", f"expected (N,) samples, at least one, got {found.dtype} of shape {found.shape}")
    if strange := int(np.count_nonzero(~np.isfinite(found))):
        raise ParameterError("audio", f"expected finite samples, {strange:,} of {found.size:,} are NaN or infinite")
    if (peak := float(np.abs(found).max())) > LOUDEST:
        raise ParameterError("audio", f"floats have a full scale of 1.0, these reach {peak:.0f}; divide them by 32768")
    return found.astype(np.float32)


class StreamResampler:
    """The samples of one stream at one rate -> at another."""

    def __init__(self, from_rate: float, to_rate: float):
        same = from_rate == to_rate
        self.stream = None if same else soxr.ResampleStream(from_rate, to_rate, 1, dtype="float32")

    def __call__(self, samples: np.ndarray, last: bool) -> np.ndarray:
        """(N,) float32 next samples -> those that are certain; after the `last` all that remain."""
        return samples if self.stream is None else self.stream.resample_chunk(samples, last=last)
