"""An uploaded file -> chunks of sound. Only a few seconds of it are decoded at a time."""

import os
from collections.abc import Generator
from typing import IO

from ds2.utils.errors import InputError

CHUNK_SECONDS = 5.0  # of sound that the model gets at a time, so that an upload does not delay live streams


def upload_name(name: str | None) -> str:
    """What stands for an uploaded file in errors: its name without folders."""
    return os.path.basename((name or "").replace("\\", "/"))[:100] or "upload"


def iter_upload(
    file: IO[bytes], name: str, sample_rate: int, longest: float, channel: int | None = None
) -> Generator[bytes, None, None]:
    """Float32 samples of a file at `sample_rate` (Hz), CHUNK_SECONDS at most in each item; of `channel`, from 1 on, or
    of all.

    Raises:
        TooLong: the recording has more than `longest` seconds.
        InputError: empty, not audio, cut off, without that channel, or with samples or a rate that no recording has.
    """
    from ds2.audio.files import iter_audio_bytes  # slow to import, hence at the first upload

    if file.seek(0, os.SEEK_END) == 0:
        raise InputError(f"{name}: empty file (0 bytes)")
    size = round(CHUNK_SECONDS * sample_rate)
    for buffer in iter_audio_bytes(file, sample_rate, name, longest, None if channel is None else channel - 1):
        for start in range(0, len(buffer), size):
            yield buffer[start : start + size].tobytes()
