"""Recordings that libsndfile cannot read, by FFmpeg (PyAV): MP4, M4A, MOV, WebM, Matroska, AAC; video's sound too.

And MP3 whose header does not say how long it is: libsndfile guesses its length from the size of the file, tags and all.
"""

import contextlib
import functools
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from ds2.audio.mixdown import mixdown
from ds2.utils.errors import InputError

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

SUFFIXES = (".m4a", ".m4b", ".mp4", ".mov", ".3gp", ".webm", ".mkv", ".mka", ".aac")
# (where in the file, what stands there): FFmpeg's demuxer. Always named, since a playlist would open other files.
DEMUXERS = {(0, b"\x1a\x45\xdf\xa3"): "matroska", (0, b"OggS"): "ogg", (0, b"\xff\xf1"): "aac", (0, b"\xff\xf9"): "aac"}
DEMUXERS |= {(0, b"ID3"): "mp3"} | {(0, b"\xff" + bytes([kind])): "mp3" for kind in b"\xfa\xfb\xf2\xf3\xe2\xe3"}
DEMUXERS |= {(4, kind): "mp4" for kind in (b"ftyp", b"moov", b"wide", b"mdat", b"free", b"skip")}
INDEXED = ("mp4", "matroska")  # can be entered in the middle
HEAD = 16  # bytes that tell the demuxer
PREROLL = 1.0  # seconds decoded before a span: what decoders carry from packet to packet has settled by then
LEAST_PACKET = 4  # bytes of a packet on average; a block of WebM that holds silence in Opus has 7
FEW_PACKETS = 10_000  # that a file of any size may have
MEASURED = 256  # files whose lengths are remembered


class FFmpegReader:
    """An open file with sound, of which the first stream is read.

    Attributes:
        sample_rate: Hz.
        frames: samples of each channel; measured from the packets where the header does not say.
        slack: samples by which the decoded sound may be shorter: containers round times.
        channel: the one to read; None: all, by `mixdown`.
    """

    channel: int | None = None

    def __init__(self, source: bytes | IO[bytes], name: str | Path):
        """`source` is a path in bytes or an open file.

        Raises:
            InputError: not a container that is known here, damaged, or without sound.
        """
        self.name = name
        self.file = open(source, "rb") if isinstance(source, bytes) else source  # noqa: SIM115
        try:
            self.demuxer = _demuxer(self.file, name)
            with _readable(name):
                self.sample_rate, self.channels, seconds = _stream_facts(self.file, self.demuxer)
                if seconds is None and isinstance(source, bytes):
                    here = os.stat(source)
                    seconds = _seconds_of_file(source, self.demuxer, here.st_size, here.st_mtime_ns)
                elif seconds is None:
                    seconds = _packet_seconds(self.file, self.demuxer)
        except BaseException:
            self.close()
            raise
        self.frames = round(seconds * self.sample_rate)
        self.slack = self.sample_rate // 4

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    def buffers(self, start: int, size: int) -> Iterator[np.ndarray]:
        """(n,) float32 buffers of the channel: from sample `start` on up to `size` samples, fewer at the end."""
        import av

        with _readable(self.name), _opened_stream(self.file, self.demuxer) as (container, stream):
            self._enter(container, stream, start)
            converter = av.AudioResampler(format="fltp", rate=self.sample_rate)
            here: int | None = None  # the sample that comes next
            for frame in itertools.chain(container.decode(stream), [None]):
                for part in converter.resample(frame):
                    if here is None:
                        here = self._position(part, stream, start)
                    channels = part.to_ndarray()
                    buffer = mixdown(channels, axis=0) if self.channel is None else channels[self.channel]
                    first, last = max(0, start - here), min(len(buffer), start + size - here)
                    here += len(buffer)
                    if first < last:
                        yield buffer[first:last]
                if here is not None and here >= start + size:
                    return

    def _enter(self, container: "InputContainer", stream: "AudioStream", start: int) -> None:
        """Goes to a little before sample `start`; containers without an index are read from the beginning."""
        seconds = start / self.sample_rate - PREROLL
        if self.demuxer in INDEXED and seconds > 0 and stream.time_base is not None:
            container.seek(round(seconds / stream.time_base) + (stream.start_time or 0), stream=stream)

    def _position(self, first: "AudioFrame", stream: "AudioStream", start: int) -> int:
        """The number of the first sample that was decoded."""
        if self.demuxer not in INDEXED or start <= PREROLL * self.sample_rate or first.pts is None:
            return 0
        begin = max(0, stream.start_time or 0) * (stream.time_base or 0)
        return round(float(first.pts * (first.time_base or 0) - begin) * self.sample_rate)


def _demuxer(file: IO[bytes], name: str | Path) -> str:
    file.seek(0)
    head = file.read(HEAD)
    for (at, magic), demuxer in DEMUXERS.items():
        if head[at:].startswith(magic):
            return demuxer
    raise InputError(f"{name}: not an audio file of a known kind; convert it to WAV, FLAC, MP3, OGG, Opus, M4A or WebM")


@contextlib.contextmanager
def _readable(name: str | Path) -> Iterator[None]:
    """Turns the errors of FFmpeg into one line."""
    import av

    try:
        yield
    except InputError:
        raise
    except (av.error.FFmpegError, IndexError, ValueError, OverflowError) as error:
        raise InputError(f"{name}: damaged, or without sound; convert or record it again") from error


@contextlib.contextmanager
def _opened_stream(file: IO[bytes], demuxer: str) -> "Iterator[tuple[InputContainer, AudioStream]]":
    import av

    file.seek(0)
    with av.open(file, "r", format=demuxer) as container:
        stream = container.streams.audio[0]
        if stream.codec_context is None:
            raise ValueError("a codec that FFmpeg does not know")
        yield container, stream


def _stream_facts(file: IO[bytes], demuxer: str) -> tuple[int, int, float | None]:
    """Sample rate (Hz), channels, and seconds where the header has an index of all frames."""
    with _opened_stream(file, demuxer) as (_, stream):
        seconds = float((stream.duration or 0) * (stream.time_base or 0))
        return stream.rate, stream.channels, seconds if stream.frames and seconds else None


def _packet_seconds(file: IO[bytes], demuxer: str) -> float:
    """The end of the last packet; nothing is decoded.

    Raises:
        ValueError: there are so many packets that hardly any holds sound: counting them would take minutes.
    """
    most = FEW_PACKETS + file.seek(0, os.SEEK_END) // LEAST_PACKET
    with _opened_stream(file, demuxer) as (container, stream):
        last = 0
        for number, packet in enumerate(container.demux(stream)):
            if number > most:
                raise ValueError("too many packets")
            if packet.pts is not None:
                last = max(last, packet.pts + (packet.duration or 0))
        return float(last * (stream.time_base or 0))


@functools.lru_cache(MEASURED)
def _seconds_of_file(path: bytes, demuxer: str, size: int, changed: int) -> float:
    """Remembered, since long recordings are opened for each span; size and time of change tell files apart."""
    with open(path, "rb") as file:
        return _packet_seconds(file, demuxer)
