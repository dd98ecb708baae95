"""Audio files -> samples as tensors; files.py, which this stands on, gives them as arrays."""

from pathlib import Path

import torch
from torch import Tensor

from ds2.audio.files import InMemory, read_audio_array, resample_array


def read_audio(
    path: str | Path | InMemory,
    sample_rate: int | None = None,
    offset: float = 0.0,
    duration: float | None = None,
    channel: int | None = None,
) -> tuple[Tensor, int]:
    """`read_audio_array` -> (N,) float32 tensor of samples, full scale 1.0, and their rate in Hz."""
    samples, rate = read_audio_array(path, sample_rate, offset, duration, channel)
    return torch.from_numpy(samples), rate


def resample(samples: Tensor, from_rate: int, to_rate: int) -> Tensor:
    """`resample_array` of (N,) float32 samples."""
    return torch.from_numpy(resample_array(samples.numpy(), from_rate, to_rate))
