"""Audio files -> samples as arrays, without torch (tensors.py gives tensors). Every error names the file.

    file -> libsndfile or FFmpeg -> buffers of samples, channels averaged -> soxr -> buffers at the wanted rate

Nothing is allocated because a header claims it: memory grows with the samples that have been decoded.
"""

import contextlib
import io
import itertools
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import soundfile
import soxr

from ds2.audio.cut_off import refuse_cut_off, remedy
from ds2.audio.ffmpeg import SUFFIXES as FFMPEG_SUFFIXES
from ds2.audio.ffmpeg import FFmpegReader
from ds2.audio.libsndfile import BUFFER, DecodingError, GuessedLength, LibsndfileReader
from ds2.utils.errors import InputError, TooLong
from ds2.utils.object_storage import fetched, mirrored
from ds2.utils.tar import archive_of, read_member

LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000  # Hz; headers with other rates are damaged
MOST_SAMPLES = 1 << 27  # read at once, half a gigabyte: 2.3 hours at 16 kHz
MOST_CHANNEL_RATE = 2 * 48_000  # samples a second, channels together, that a limit in seconds counts on
LOUDEST = 2.0**31  # full scale is 1; some write integers as float
UNKNOWN_LENGTH = 2**62  # samples; libsndfile gives 2**63 - 1 where the header does not say
SUFFIXES = (*".wav .flac .mp3 .ogg .oga .opus .aiff .aif .au .caf .w64 .rf64 .sph".split(), *FFMPEG_SUFFIXES)
AudioReader = LibsndfileReader | FFmpegReader


@dataclass(frozen=True)
class InMemory:
    """An audio file in memory, which may stand where a path may; `name` stands for it in errors."""

    data: bytes = field(repr=False)
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class AudioInfo:
    """The information in an audio file's header."""

    duration: float  # seconds
    sample_rate: int  # Hz
    channels: int


def probe(path: str | Path | InMemory) -> AudioInfo:
    """Reads the header alone; in formats whose header has no length, the places of all packets too.

    Raises:
        InputError: missing, empty, not audio, an impossible sample rate, or a WAV or Ogg that is cut off.
    """
    with contextlib.closing(_open_reader(_checked_source(path), str(path))) as reader:
        return AudioInfo(reader.frames / reader.sample_rate, reader.sample_rate, reader.channels)


def read_audio_array(
    path: str | Path | InMemory,
    sample_rate: int | None = None,
    offset: float = 0.0,
    duration: float | None = None,
    channel: int | None = None,
) -> tuple[np.ndarray, int]:
    """Decodes a file, or `duration` seconds of it from `offset` on without decoding the rest.

    Any format of libsndfile (WAV, FLAC, MP3, OGG Vorbis, Opus, ...) and the sound of MP4, M4A, WebM, Matroska and AAC;
    any sample rate, any sample width; channels are mixed (`mixdown`), or `channel` (from 0 on) is read; resampled when
    `sample_rate` (Hz) is given and differs.

    Returns:
        (N,) float32 samples, full scale 1.0, and their rate in Hz.

    Raises:
        InputError: missing, empty, not audio, cut off, without samples, NaN, infinite or far beyond full scale, ends
            before `offset`, has an impossible sample rate, or `offset` or `duration` (seconds) is impossible.
        TooLong: more than MOST_SAMPLES are wanted.
    """
    name = str(path)
    with contextlib.closing(_open_reader(_checked_source(path), name)) as reader:
        reader.channel = channel
        start, size = _sample_span(reader, name, offset, duration)
        rate = reader.sample_rate if sample_rate is None else sample_rate
        return _gathered(_resampled(_decoded_buffers(reader, name, start, size), reader.sample_rate, rate), name), rate


def read_audio_bytes_array(
    data: bytes, sample_rate: int | None = None, name: str = "stdin", longest: float | None = None
) -> tuple[np.ndarray, int]:
    """Decodes a file in memory, `name` in errors -> (N,) samples, rate in Hz; otherwise as `read_audio_array`.

    Raises:
        TooLong: also where it has more than `longest` seconds.
    """
    with contextlib.closing(_open_bytes(data, name, longest)) as reader:
        rate = reader.sample_rate if sample_rate is None else sample_rate
        buffers = _decoded_buffers(reader, name, 0, _sample_span(reader, name, 0.0, None)[1])
        return _gathered(_resampled(buffers, reader.sample_rate, rate), name), rate


def iter_audio_bytes(
    data: bytes | IO[bytes],
    sample_rate: int,
    name: str = "stdin",
    longest: float | None = None,
    channel: int | None = None,
) -> Iterator[np.ndarray]:
    """The samples of `read_audio_bytes_array` in buffers (n,), decoded as they are asked for: memory is bounded.

    `data` may be an open file, too. With `channel`, from 0 on, that one alone; InputError if there is none.
    """
    with contextlib.closing(_open_bytes(data, name, longest)) as reader:
        if channel is not None and not 0 <= channel < reader.channels:
            raise InputError(f"{name}: channel {channel + 1} of {reader.channels}: there is none")
        reader.channel = channel
        buffers = _decoded_buffers(reader, name, 0, _sample_span(reader, name, 0.0, None)[1])
        yield from _resampled(buffers, reader.sample_rate, sample_rate)


def resample_array(samples: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """(N,) float32 samples -> (about N * to_rate / from_rate,), band-limited.

    By soxr at high quality: what lies above the new band is over 100 dB down, any ratio of rates is exact.

    Raises:
        InputError: a rate that is not positive.
    """
    if min(from_rate, to_rate) <= 0:
        raise InputError(f"sample rates must be positive (Hz), got {from_rate} and {to_rate}")
    if from_rate == to_rate:
        return samples
    resampled: np.ndarray = soxr.resample(samples, from_rate, to_rate, quality="HQ")
    return resampled


def refuse_impossible(samples: np.ndarray, name: str | Path) -> None:
    """Refuses (n,) samples whose sums of squares would be NaN.

    Raises:
        InputError: samples that are NaN, infinite or far beyond full scale.
    """
    if not np.abs(samples).max(initial=0.0) <= LOUDEST:
        raise InputError(
            f"{name}: samples that are NaN, infinite or far beyond full scale, which is 1.0; convert or record it again"
        )


def _sample_span(reader: AudioReader, name: str | Path, offset: float, duration: float | None) -> tuple[int, int]:
    """First sample and number of samples of a span of a recording, which is given in seconds."""
    if not (math.isfinite(offset) and offset >= 0):
        raise InputError(f"{name}: offset must be 0 or more seconds, got {offset}")
    if duration is not None and not (math.isfinite(duration) and duration > 0):
        raise InputError(f"{name}: duration must be positive seconds, got {duration}")
    rate, total = reader.sample_rate, reader.frames
    if total <= 0:
        raise InputError(f"{name}: holds no samples; remove it or record it again")
    start = round(min(offset * rate, total))
    if start >= total:
        raise InputError(f"{name}: ends at {total / rate:.2f} s, before the offset {offset:g} s")
    return start, total - start if duration is None else max(1, round(min(duration * rate, total - start)))


def _decoded_buffers(reader: AudioReader, name: str | Path, start: int, size: int) -> Iterator[np.ndarray]:
    """(n,) float32 buffers, `size` samples together."""
    done, rate, why = 0, reader.sample_rate, ""
    try:
        for buffer in reader.buffers(start, size):
            refuse_impossible(buffer, name)
            done += len(buffer)
            yield buffer
    except DecodingError as error:
        done, why = max(done, error.place - start), f" ({error})"
    if done == 0 or done < size - reader.slack:
        there, total = (start + done) / rate, reader.frames / rate
        raise InputError(f"{name}: cut off or damaged, {there:.2f} s of {total:.2f} s can be read{why}; {remedy(name)}")


def _resampled(buffers: Iterator[np.ndarray], from_rate: int, to_rate: int) -> Iterator[np.ndarray]:
    """The buffers at another rate, to the bit as if all samples had been resampled at once."""
    if from_rate == to_rate:
        yield from buffers
        return
    if to_rate <= 0:
        raise InputError(f"sample rates must be positive (Hz), got {from_rate} and {to_rate}")
    resampler = soxr.ResampleStream(from_rate, to_rate, 1, dtype="float32", quality="HQ")
    last = np.empty(0, np.float32)
    for buffer in itertools.chain(_bounded(buffers, from_rate / to_rate), [None]):
        resampled = resampler.resample_chunk(last if buffer is None else buffer, last=buffer is None)
        if len(resampled):
            yield resampled


def _bounded(buffers: Iterator[np.ndarray], ratio: float) -> Iterator[np.ndarray]:
    """The same samples in buffers that are not larger than BUFFER after a change of the rate, `ratio` old to new."""
    most = max(1, int(BUFFER * ratio))
    for buffer in buffers:
        for start in range(0, len(buffer), most):
            yield buffer[start : start + most]


def _gathered(buffers: Iterable[np.ndarray], name: str | Path) -> np.ndarray:
    """(N,) all samples of the buffers."""
    samples, done = np.empty(0, np.float32), 0
    for buffer in buffers:
        end = done + len(buffer)
        if end > MOST_SAMPLES:
            raise TooLong(f"{name}: more than {MOST_SAMPLES} samples at once; cut it, or read spans of it")
        if end > len(samples):
            samples.resize(max(end, len(samples) + len(samples) // 4), refcheck=False)
        samples[done:end] = buffer
        done = end
    samples.resize(done, refcheck=False)
    return samples


def _checked_source(path: str | Path | InMemory) -> bytes | IO[bytes]:
    if isinstance(path, InMemory):
        return _checked_memory(path.data, path.name)
    path = mirrored(path)
    if "\0" in str(path):
        raise InputError(f"{str(path)!r}: not a possible file name")
    if (archive := archive_of(path)) is not None:
        return _checked_memory(read_member(path, archive), str(path))
    try:
        size = fetched(path).stat().st_size
        if path.is_dir():
            raise InputError(f"{path}: is a folder, not an audio file")
        if path.is_fifo():
            raise InputError(f"{path}: a pipe, which cannot be read twice; give its sound as standard input, -")
        if size == 0:
            raise InputError(f"{path}: empty file (0 bytes)")
        with path.open("rb") as file:
            refuse_cut_off(file, path)
        return os.fsencode(path)  # soundfile refuses a str whose bytes are not UTF-8
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeEncodeError as error:
        raise InputError(f"{str(path)!r}: not a possible file name") from error


def _checked_memory(data: bytes, name: str) -> IO[bytes]:
    if not data:
        raise InputError(f"{name}: empty, no audio received")
    file = _Memory(data)
    refuse_cut_off(file, name)
    file.seek(0)
    return file


class _Memory(io.BytesIO):
    """A file in memory. Headers of damaged ones point before its beginning, where no seek leads."""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def _open_bytes(data: bytes | IO[bytes], name: str, longest: float | None) -> AudioReader:
    if not isinstance(data, bytes):
        refuse_cut_off(data, name)
        data.seek(0)
    reader = _open_reader(_checked_memory(data, name) if isinstance(data, bytes) else data, name)
    if longest is not None and reader.frames > longest * min(reader.sample_rate, MOST_CHANNEL_RATE / reader.channels):
        reader.close()
        raise TooLong(f"{name}: longer than the {longest:g} s that are allowed")
    return reader


def _open_reader(source: bytes | IO[bytes], name: str | Path) -> AudioReader:
    """Opens a path in bytes or a file in memory.

    Raises:
        InputError: neither libsndfile nor FFmpeg can read it, or its header is impossible.
    """
    try:
        reader: AudioReader = LibsndfileReader(source, name)
    except (soundfile.LibsndfileError, GuessedLength, TypeError):  # TypeError: headerless .raw, without a sample rate
        reader = FFmpegReader(source, name)
    problem = ""
    if not LOWEST_RATE <= reader.sample_rate <= HIGHEST_RATE:
        problem = f"{reader.sample_rate} Hz; sound has {LOWEST_RATE} to {HIGHEST_RATE} Hz"
    elif reader.frames >= UNKNOWN_LENGTH:  # libsndfile can neither count nor seek here
        problem = "the header does not say how long it is (written to a pipe?); convert it into a file"
    if problem:
        reader.close()
        raise InputError(f"{name}: {problem}")
    return reader
