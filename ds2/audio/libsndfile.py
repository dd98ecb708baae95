"""Recordings by libsndfile: WAV, FLAC, MP3, OGG Vorbis, Opus and many more."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import soundfile

from ds2.audio.c_messages import no_c_messages
from ds2.audio.cut_off import remedy
from ds2.audio.mixdown import mixdown
from ds2.audio.mp3 import counts_frames, first_frame
from ds2.utils.errors import InputError

BUFFER = 1 << 18  # samples, channels together, that are decoded at once
# Samples of an MP3 decoded before a span: a frame may take bits from frames before it, at most 511 bytes back.
PREROLL = 32 * 1152


class DecodingError(Exception):
    """The sound cannot be decoded beyond the sample number `place`."""

    def __init__(self, place: int, reason: str):
        super().__init__(reason)
        self.place = place


class GuessedLength(Exception):
    """libsndfile would guess the length of the sound from the size of the file, tags included."""


class LibsndfileReader:
    """An open file.

    Attributes:
        sample_rate: Hz.
        frames: samples of each channel, as the header says.
        slack: samples by which the decoded sound may be shorter.
        channel: the one to read; None: all, by `mixdown`.
    """

    slack = 0
    channel: int | None = None

    def __init__(self, source: bytes | IO[bytes], name: str | Path):
        """`source` is a path in bytes or an open file.

        Raises:
            soundfile.LibsndfileError: not a format that libsndfile reads. TypeError: no header.
            GuessedLength: an MP3 whose header does not say how long it is.
        """
        self.name = name
        self.file = QuietSoundFile(source)
        self.sample_rate, self.channels, self.frames = self.file.samplerate, self.file.channels, self.file.frames
        if self.file.format == "MP3" and not _mp3_counts_frames(source):
            self.close()
            raise GuessedLength

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    def buffers(self, start: int, size: int) -> Iterator[np.ndarray]:
        """(n,) float32 buffers of the channel: from sample `start` on up to `size` samples, fewer at the end.

        Raises:
            InputError: the file is damaged before `start`. DecodingError: it is damaged after it.
        """
        if start:
            self._seek(start)
        left, most = size, max(1, BUFFER // self.channels)
        try:
            while len(buffer := self.file.read(min(most, left), dtype="float32", always_2d=True)):
                left -= len(buffer)
                one = 0 if self.channels == 1 else self.channel
                yield mixdown(buffer, axis=1) if one is None else buffer[:, one]
        except RuntimeError as error:
            raise DecodingError(self.file.tell(), str(error)) from error

    def _seek(self, start: int) -> None:
        before = min(start, PREROLL) if self.file.format == "MP3" else 0
        try:
            place, why = self.file.seek(start - before), "its parts lie at impossible times"
            place += len(self.file.read(before)) if before else 0
        except RuntimeError as error:
            place, why = -1, str(error)
        if place != start:
            here, total = start / self.sample_rate, self.frames / self.sample_rate
            when = f"{here:.2f} s of {total:.2f} s ({why})"
            raise InputError(f"{self.name}: cut off or damaged before {when}; {remedy(self.name)}")


class QuietSoundFile(soundfile.SoundFile):
    """A file whose decoders print nothing; what is damaged is an error here.

    soundfile seeks after each read to where it is already. In an MP3 that loses what the next frames take from those
    before them, and they would be damaged.
    """

    def __init__(self, source: bytes | IO[bytes]):
        with no_c_messages():
            super().__init__(source)

    def read(self, *arguments: Any, **options: Any) -> Any:
        """See soundfile."""
        with no_c_messages():
            return super().read(*arguments, **options)

    def seek(self, frames: int, whence: int = io.SEEK_SET) -> int:
        """See soundfile."""
        with no_c_messages():
            return int(super().seek(frames, whence))

    def seekable(self) -> bool:
        """Not in an MP3."""
        return self.format != "MP3" and bool(super().seekable())


def _mp3_counts_frames(source: bytes | IO[bytes]) -> bool:
    with contextlib.nullcontext(source) if not isinstance(source, bytes) else open(source, "rb") as file:
        return counts_frames(first_frame(file))
