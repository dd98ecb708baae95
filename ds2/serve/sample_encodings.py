"""The encodings in which clients send samples: 16-bit PCM, float32, and the 8-bit mu-law of telephones."""

import numpy as np

from ds2.serve.messages import Encoding
from ds2.utils.errors import InputError


def decode_samples(data: bytes, encoding: Encoding) -> np.ndarray:
    """Bytes of whole little-endian samples -> (N,) float32 samples, full scale 1.0.

    Raises:
        InputError: a float32 sample is not finite.
    """
    if encoding == "pcm16":
        return np.frombuffer(data, "<i2").astype(np.float32) / 32768
    if encoding == "mulaw":
        return MULAW[np.frombuffer(data, np.uint8)]
    samples = np.frombuffer(data, "<f4").astype(np.float32)
    if not np.isfinite(samples).all():
        raise InputError("a float32 sample is NaN or infinite; send finite samples, full scale 1.0")
    return samples


def _mulaw_table() -> np.ndarray:
    """ITU-T G.711: the inverted byte is sign, three bits of exponent, four of mantissa."""
    code = ~np.arange(256, dtype=np.uint8)
    magnitude = ((((code & 15).astype(np.int32) << 3) + 132) << ((code >> 4) & 7)) - 132
    return np.where(code & 128, -magnitude, magnitude).astype(np.float32) / 32768


MULAW = _mulaw_table()
