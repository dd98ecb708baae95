"""Audio files -> samples. Every error names the file."""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import soundfile
import torch
from torch import Tensor

from ds2.data.torchaudio_loader import functional
from ds2.errors import InputError

RATE_STEP = 25  # Hz: divides 8000, 11025, 16000, 22050, 44100, 48000; other rates are rounded to it
RIFF_STREAM = 0x7FFF0000  # bytes; sizes from here on are what programs write that stream WAV and do not know its end
SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".aiff", ".aif", ".au", ".caf", ".w64")


@dataclass(frozen=True)
class AudioInfo:
    """What the header says."""

    duration: float  # seconds
    sample_rate: int  # Hz
    channels: int


def probe(path: str | Path) -> AudioInfo:
    """Reads the header alone.

    Raises:
        InputError: missing, empty or not audio.
    """
    with _open(_checked(path), path) as sound:
        return AudioInfo(sound.frames / sound.samplerate, sound.samplerate, sound.channels)


def read_audio(
    path: str | Path, sample_rate: int | None = None, offset: float = 0.0, duration: float | None = None
) -> tuple[Tensor, int]:
    """Decodes a file, or `duration` seconds of it from `offset` on without decoding the rest.

    Any format of libsndfile (WAV, FLAC, MP3, OGG Vorbis, Opus, ...), any sample rate, any sample width; channels are
    averaged; resampled when `sample_rate` (Hz) is given and differs.

    Returns:
        (N,) float32 samples, full scale 1.0, and their rate in Hz.

    Raises:
        InputError: missing, empty, not audio, cut off, without samples, NaN or infinite, or ends before `offset`.
    """
    return _read(_checked(path), path, sample_rate, offset, duration)


def read_audio_bytes(data: bytes, sample_rate: int | None = None, name: str = "stdin") -> tuple[Tensor, int]:
    """Decodes a file that lies in memory; `name` stands for it in errors. Otherwise as `read_audio`."""
    if not data:
        raise InputError(f"{name}: empty, no audio received")
    return _read(io.BytesIO(data), name, sample_rate, 0.0, None)


def resample(samples: Tensor, from_rate: int, to_rate: int) -> Tensor:
    """(..., N) samples -> (..., about N * to_rate / from_rate), by band-limited sinc interpolation."""
    # The filter bank holds one filter per phase, from_rate / gcd of them: odd rates would make it huge, and
    # rounding a rate to 25 Hz moves the pitch by 0.2 % at most.
    from_rate, to_rate = (max(1, round(rate / RATE_STEP)) for rate in (from_rate, to_rate))
    if from_rate == to_rate:
        return samples
    resampled: Tensor = functional().resample(samples, from_rate, to_rate)
    return resampled


def _read(
    source: bytes | IO[bytes], name: str | Path, sample_rate: int | None, offset: float, duration: float | None
) -> tuple[Tensor, int]:
    with _open(source, name) as sound:
        rate, total = sound.samplerate, sound.frames
        start = round(offset * rate)
        wanted = total - start if duration is None else min(total - start, max(1, round(duration * rate)))
        if total <= 0:
            raise InputError(f"{name}: holds no samples; remove it or record it again")
        if wanted <= 0:
            raise InputError(f"{name}: ends at {total / rate:.2f} s, before the offset {offset:.2f} s")
        decoded = _decode(sound, name, start, wanted)
    if len(decoded) < wanted:
        raise InputError(
            f"{name}: cut off, {(start + len(decoded)) / rate:.2f} s of {total / rate:.2f} s can be read; copy it again"
        )
    mono = decoded[:, 0] if decoded.shape[1] == 1 else decoded.mean(axis=1)
    if not np.isfinite(mono).all():
        raise InputError(f"{name}: NaN or infinite samples; convert or record it again")
    samples = torch.from_numpy(np.ascontiguousarray(mono))
    if sample_rate is None or sample_rate == rate:
        return samples, rate
    return resample(samples, rate, sample_rate), sample_rate


def _decode(sound: soundfile.SoundFile, name: str | Path, start: int, wanted: int) -> np.ndarray:
    """(N, channels) float32: at most `wanted` samples from `start` on."""
    try:
        if start:
            sound.seek(start)
        return np.asarray(sound.read(wanted, dtype="float32", always_2d=True))
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise InputError(f"{name}: damaged audio ({error}); copy or convert it again") from error


def _checked(path: str | Path) -> bytes:
    path = Path(path)
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise InputError(f"{path}: is a folder, not an audio file")
        if size == 0:
            raise InputError(f"{path}: empty file (0 bytes)")
        with path.open("rb") as file:
            header = file.read(8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    promised = int.from_bytes(header[4:], "little") + len(header)
    if header[:4] == b"RIFF" and size < promised < RIFF_STREAM:
        # libsndfile reads what is there without a word
        raise InputError(f"{path}: cut off, {size} of {promised} bytes are here; copy it again")
    return os.fsencode(path)  # soundfile refuses a str whose bytes are not UTF-8


def _open(source: bytes | IO[bytes], name: str | Path) -> soundfile.SoundFile:
    try:
        return soundfile.SoundFile(source)
    except soundfile.LibsndfileError as error:
        raise InputError(
            f"{name}: not an audio file that libsndfile can read; convert it to WAV, FLAC, MP3, OGG or Opus"
        ) from error
