"""Cut-off WAV, Ogg and MP3 files, found by the bytes that their headers promise.

libsndfile shortens the first two silently; in an MP3 its decoder prints lines of its own that name no file.
"""

import io
import shlex
import struct
from pathlib import Path
from typing import IO

from ds2.audio.mp3 import first_frame, promised_bytes
from ds2.utils.errors import InputError

RIFF_STREAM = 0x7FFF0000  # bytes; programs that stream WAV write sizes from here on, as they do not know the end
OGG_PAGE = 27 + 255 + 255 * 255  # bytes of the largest page: header, segment table, segments
MP3_WHOLE = 0.99  # part of the promised bytes from which on an MP3's decoder, too, takes the file as whole


def remedy(name: str | Path) -> str:
    """What to do with a file that was cut off."""
    return f"copy it again, or keep what is there: ffmpeg -i {shlex.quote(str(name))} rest.wav"


def refuse_cut_off(file: IO[bytes], name: str | Path) -> None:
    """Compares the bytes that a WAV, an Ogg or an MP3 promises with those that are there; other formats pass.

    Raises:
        InputError: naming the file, `name`, and how much of it is there.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    header = file.read(12)
    if header[:4] == b"RIFF" and header[8:] == b"WAVE":
        _check_wav(file, name, size)
    elif header[:4] == b"OggS":
        _check_ogg(file, name, size)
    elif header[:3] == b"ID3" or header[:1] == b"\xff":
        _check_mp3(file, name, size)


def _check_mp3(file: IO[bytes], name: str | Path, size: int) -> None:
    """Tags count as sound here: with them some encoders' numbers are right, and a file is never refused for them."""
    promised = promised_bytes(first_frame(file))
    if size < MP3_WHOLE * promised:
        raise InputError(f"{name}: cut off, {size:,} of {promised:,} bytes are here; {remedy(name)}")


def _check_ogg(file: IO[bytes], name: str | Path, size: int) -> None:
    """The last page must be whole. A file that ends between two pages may be one that its writer did not finish."""
    file.seek(max(0, size - OGG_PAGE))
    tail = file.read()
    at = tail.rfind(b"OggS")
    segments = int.from_bytes(tail[at + 26 : at + 27])
    if at >= 0 and at + 27 + segments + sum(tail[at + 27 : at + 27 + segments]) > len(tail):
        raise InputError(f"{name}: cut off, its last page is not whole; {remedy(name)}")


def _check_wav(file: IO[bytes], name: str | Path, size: int) -> None:
    """Looks at the data chunk alone: many programs write a RIFF size that is off by a pad byte or by the header."""
    byte_rate = 0
    while len(header := file.read(8)) == 8:
        kind, length = struct.unpack("<4sI", header)
        start = file.tell()
        if kind == b"fmt ":
            byte_rate = int.from_bytes(file.read(12)[8:], "little")
        elif kind == b"data":
            here, rate = size - start, byte_rate or 1
            if length == 0 < here:
                raise InputError(
                    f"{name}: its header says that it holds no sound, but {here / rate:.2f} s follow, as after a "
                    f"recorder that did not end; keep them: ffmpeg -i {shlex.quote(str(name))} whole.wav"
                )
            if here < length < RIFF_STREAM:
                raise InputError(
                    f"{name}: cut off, {here / rate:.2f} s of {length / rate:.2f} s are here; {remedy(name)}"
                )
            return
        file.seek(start + length + length % 2)
