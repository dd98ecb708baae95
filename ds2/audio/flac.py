"""Samples as a FLAC file in memory, for pages and tables that contain sound."""

import io

import numpy as np
import soundfile


def flac_bytes(samples: np.ndarray, sample_rate: int) -> bytes:
    """(N,) samples, clipped to full scale 1.0, at `sample_rate` Hz -> the bytes of a file of 16 bits."""
    buffer = io.BytesIO()
    soundfile.write(buffer, np.clip(samples, -1.0, 1.0), sample_rate, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()
