"""The first frame of an MP3, which may say how many frames and bytes follow."""

from typing import IO

FRAME_COUNTS = (b"Xing", b"Info", b"VBRI")  # what stands before the number of frames
FIRST_FRAME = 192  # bytes of the first frame that may hold it
HAS_FRAMES, HAS_BYTES = 1, 2  # flags after Xing and Info


def first_frame(file: IO[bytes]) -> bytes:
    """The beginning of the first frame, after the tags at the start of the file; its place is as before."""
    here, place = file.tell(), 0
    while (head := _at(file, place, 10))[:3] == b"ID3":
        place += 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=False))
    frame = _at(file, place, FIRST_FRAME)
    file.seek(here)
    return frame


def counts_frames(frame: bytes) -> bool:
    """Whether the first frame says how many frames follow."""
    return any(mark in frame for mark in FRAME_COUNTS)


def promised_bytes(frame: bytes) -> int:
    """The bytes of the sound, as the first frame counts them; 0 where it does not."""
    start = max(frame.find(b"Xing"), frame.find(b"Info"))
    if start < 0:
        return 0
    flags = int.from_bytes(frame[start + 4 : start + 8])
    place = start + 8 + (4 if flags & HAS_FRAMES else 0)
    return int.from_bytes(frame[place : place + 4]) if flags & HAS_BYTES else 0


def _at(file: IO[bytes], place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)
