"""An uploaded file -> samples; a file that would be too long is refused before it is decoded."""

import os

import numpy as np

from ds2.utils.errors import InputError


def decode_upload(data: bytes, name: str, sample_rate: int, most: float) -> np.ndarray:
    """(N,) float32 samples at `sample_rate` of a file in memory, of `most` seconds at most.

    Raises:
        TooLong: it is longer.
        InputError: it is empty, no sound, of no rate or loudness that sound has, or cut off.
    """
    from ds2.data.audio import read_audio_bytes  # with torch, at the first upload

    name = os.path.basename(name.replace("\\", "/"))[:100] or "upload"
    if not data:
        raise InputError(f"{name}: empty file (0 bytes)")
    return read_audio_bytes(data, sample_rate, name, longest=most)[0].numpy()
