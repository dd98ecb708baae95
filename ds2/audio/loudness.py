"""How loud a recording is, every 10 ms."""

import numpy as np
from torch import Tensor

HOP = 0.01  # seconds between levels


def energies(samples: Tensor, sample_rate: int) -> np.ndarray:
    """(N,) samples -> (T,) sums of squares of every 10 ms; a recording can come in several calls of whole 10 ms."""
    hop = round(HOP * sample_rate)
    return np.square(np.pad(samples.numpy().astype(np.float64), (0, -len(samples) % hop))).reshape(-1, hop).sum(1)


def levels(energy: np.ndarray, sample_rate: int) -> np.ndarray:
    """(T,) energies of every 10 ms -> (T,) their level in dB, each over 20 ms."""
    both = energy + np.append(energy[1:], 0.0)
    return 10.0 * np.log10(both / (2 * round(HOP * sample_rate)) + 1e-10)
