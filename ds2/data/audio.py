"""Audio files -> samples. Every error names the file."""

import functools
import io
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import soundfile
import torch
from torch import Tensor

from ds2.data.tar import archive_of, read_member
from ds2.data.torchaudio_loader import transforms
from ds2.utils.errors import InputError

RATE_STEP = 25  # Hz: divides 8000, 11025, 16000, 22050, 44100, 48000; other rates are rounded to it
# A Kaiser window of 32 zero crossings: what lies above the new band is 50 dB down, against 10 dB by default.
WINDOWS_AT_ONCE = 1 << 12  # of resampling
LEAST_OUTPUTS = 64  # of a window
SINC = {"lowpass_filter_width": 32, "rolloff": 0.92, "resampling_method": "sinc_interp_kaiser", "beta": 9.0}
RIFF_STREAM = 0x7FFF0000  # bytes; sizes from here on are what programs write that stream WAV and do not know its end
OGG_PAGE = 27 + 255 + 255 * 255  # bytes of the largest: header, table of its pieces, pieces
BLOCK = 1 << 18  # samples of each channel that are decoded at once: an hour in stereo would fill gigabytes
LOUDEST = 2.0**31  # full scale is 1; some write integers as float
UNKNOWN_LENGTH = 2**62  # samples; libsndfile gives 2**63 - 1 where the header does not say
SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".aiff", ".aif", ".au", ".caf", ".w64", ".sph")


@dataclass(frozen=True)
class AudioInfo:
    """What the header says."""

    duration: float  # seconds
    sample_rate: int  # Hz
    channels: int


def probe(path: str | Path) -> AudioInfo:
    """Reads the header alone.

    Raises:
        InputError: missing, empty, not audio, or a WAV or Ogg that is cut off.
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
        InputError: missing, empty, not audio, cut off, without samples, NaN, infinite or far beyond full scale, ends
            before `offset`, or `offset` or `duration` (seconds) is no such number.
    """
    return _read(_checked(path), path, sample_rate, offset, duration)


def read_audio_bytes(data: bytes, sample_rate: int | None = None, name: str = "stdin") -> tuple[Tensor, int]:
    """Decodes a file that lies in memory; `name` stands for it in errors. Otherwise as `read_audio`."""
    if not data:
        raise InputError(f"{name}: empty, no audio received")
    _refuse_cut(io.BytesIO(data), name)
    return _read(io.BytesIO(data), name, sample_rate, 0.0, None)


def resample(samples: Tensor, from_rate: int, to_rate: int) -> Tensor:
    """(..., N) samples -> (..., about N * to_rate / from_rate), by band-limited sinc interpolation."""
    if min(from_rate, to_rate) <= 0:
        raise InputError(f"sample rates must be positive (Hz), got {from_rate} and {to_rate}")
    # The filter bank holds one filter per phase, from_rate / gcd of them: odd rates would make it huge, and
    # rounding a rate to 25 Hz moves the pitch by 0.2 % at most.
    from_rate, to_rate = (max(1, round(rate / RATE_STEP)) for rate in (from_rate, to_rate))
    if from_rate == to_rate:
        return samples
    common = math.gcd(from_rate, to_rate)
    from_rate, to_rate = from_rate // common, to_rate // common
    bank, width, stride = _filter_bank(from_rate, to_rate, samples.dtype)
    windows = torch.nn.functional.pad(samples, (width, width + stride)).unfold(-1, len(bank), stride)
    resampled = torch.cat([block @ bank for block in windows.split(WINDOWS_AT_ONCE, -2)], -2).flatten(-2)
    return resampled[..., : -(-to_rate * samples.shape[-1] // from_rate)]


@functools.lru_cache(maxsize=64)
def _filter_bank(from_rate: int, to_rate: int, dtype: torch.dtype) -> tuple[Tensor, int, int]:
    """(window, outputs) torchaudio's filters, one column for each output of a window; how far a window reaches back;
    the way to the next one. Products with it need nothing compiled for each new length, as oneDNN's convolutions do; a
    window of several periods keeps them from being too narrow.
    """
    resampler = transforms().Resample(from_rate, to_rate, dtype=dtype, **SINC)
    filters = resampler.kernel[:, 0].T
    periods = max(1, LEAST_OUTPUTS // to_rate)
    bank = filters.new_zeros(len(filters) + (periods - 1) * from_rate, periods * to_rate)
    for period in range(periods):
        first, column = period * from_rate, period * to_rate
        bank[first : first + len(filters), column : column + to_rate] = filters
    return bank, resampler.width, periods * from_rate


def refuse_impossible(samples: np.ndarray, name: str | Path) -> None:
    """Raises InputError for samples that no recording has: sums of their squares would be NaN."""
    if not np.abs(samples).max(initial=0.0) <= LOUDEST:
        raise InputError(
            f"{name}: samples that are NaN, infinite or far beyond full scale, which is 1.0; convert or record it again"
        )


def _read(
    source: bytes | IO[bytes], name: str | Path, sample_rate: int | None, offset: float, duration: float | None
) -> tuple[Tensor, int]:
    if not (math.isfinite(offset) and offset >= 0):
        raise InputError(f"{name}: offset must be 0 or more seconds, got {offset}")
    if duration is not None and not (math.isfinite(duration) and duration > 0):
        raise InputError(f"{name}: duration must be positive seconds, got {duration}")
    with _open(source, name) as sound:
        rate, total = sound.samplerate, sound.frames
        start = round(offset * rate)
        wanted = total - start if duration is None else min(total - start, max(1, round(duration * rate)))
        if total <= 0:
            raise InputError(f"{name}: holds no samples; remove it or record it again")
        if wanted <= 0:
            raise InputError(f"{name}: ends at {total / rate:.2f} s, before the offset {offset:.2f} s")
        samples = torch.from_numpy(_decode(sound, name, start, wanted, total))
    if sample_rate is None or sample_rate == rate:
        return samples, rate
    return resample(samples, rate, sample_rate), sample_rate


def _decode(sound: soundfile.SoundFile, name: str | Path, start: int, wanted: int, total: int) -> np.ndarray:
    """(wanted,) float32: the samples from `start` on, of the `total` that the header promises, channels averaged."""
    rate, why, samples, done = sound.samplerate, "", np.empty(wanted, np.float32), 0
    try:
        if start:
            sound.seek(start)
    except RuntimeError as error:
        raise InputError(
            f"{name}: cut off or damaged before {start / rate:.2f} s of {total / rate:.2f} s ({error}); copy it again"
        ) from error
    try:
        while len(block := sound.read(min(BLOCK, wanted - done), dtype="float32", always_2d=True)):
            refuse_impossible(block, name)
            mono = block[:, 0] if sound.channels == 1 else block.mean(axis=1, dtype=np.float64)
            samples[done : done + len(block)] = mono
            done += len(block)
    except RuntimeError as error:
        done, why = max(done, sound.tell() - start), f" ({error})"
    if done < wanted:
        raise InputError(
            f"{name}: cut off or damaged, {(start + done) / rate:.2f} s of {total / rate:.2f} s can be read{why}; "
            "copy it again"
        )
    return samples


def _checked(path: str | Path) -> bytes | IO[bytes]:
    path = Path(path)
    if "\0" in str(path):
        raise InputError(f"{str(path)!r}: is no name that a file can have")
    if (archive := archive_of(path)) is not None:
        data = read_member(path, archive)
        _refuse_cut(io.BytesIO(data), path)
        return io.BytesIO(data)
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise InputError(f"{path}: is a folder, not an audio file")
        if size == 0:
            raise InputError(f"{path}: empty file (0 bytes)")
        with path.open("rb") as file:
            _refuse_cut(file, path)
        return os.fsencode(path)  # soundfile refuses a str whose bytes are not UTF-8
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeEncodeError as error:
        raise InputError(f"{str(path)!r}: is no name that a file can have") from error


def _refuse_cut(file: IO[bytes], name: str | Path) -> None:
    """Compares the bytes that a WAV or Ogg promises with those that are there: libsndfile shortens both silently."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    header = file.read(12)
    if header[:4] == b"RIFF" and header[8:] == b"WAVE":
        _refuse_cut_wav(file, name, size)
    elif header[:4] == b"OggS":
        _refuse_cut_ogg(file, name, size)


def _refuse_cut_ogg(file: IO[bytes], name: str | Path, size: int) -> None:
    """A last page shorter than it says; a file that ends between two pages may be one that its writer did not end."""
    file.seek(max(0, size - OGG_PAGE))
    tail = file.read()
    at = tail.rfind(b"OggS")
    pieces = int.from_bytes(tail[at + 26 : at + 27])
    if at >= 0 and at + 27 + pieces + sum(tail[at + 27 : at + 27 + pieces]) > len(tail):
        raise InputError(f"{name}: cut off, its last page is not whole; copy it again")


def _refuse_cut_wav(file: IO[bytes], name: str | Path, size: int) -> None:
    """The size in the RIFF header itself is not believed: many programs are off by a pad byte or by the header."""
    byte_rate = 0
    while len(header := file.read(8)) == 8:
        kind, length = struct.unpack("<4sI", header)
        start = file.tell()
        if kind == b"fmt ":
            byte_rate = int.from_bytes(file.read(12)[8:], "little")
        elif kind == b"data":
            here, rate = size - start, byte_rate or 1
            if here < length < RIFF_STREAM:
                raise InputError(
                    f"{name}: cut off, {here / rate:.2f} s of {length / rate:.2f} s are here; copy it again"
                )
            return
        file.seek(start + length + length % 2)


def _open(source: bytes | IO[bytes], name: str | Path) -> soundfile.SoundFile:
    try:
        sound = soundfile.SoundFile(source)
    except (soundfile.LibsndfileError, TypeError) as error:  # TypeError: headerless .raw, without a sample rate
        raise InputError(
            f"{name}: not an audio file that libsndfile can read; convert it to WAV, FLAC, MP3, OGG or Opus"
        ) from error
    if sound.frames >= UNKNOWN_LENGTH:  # libsndfile can neither count nor seek here
        sound.close()
        raise InputError(f"{name}: the header does not say how long it is (written to a pipe?); convert it into a file")
    return sound
