"""Hostile recordings: crafted headers, broken packets whose checksums are right, and changed bytes."""

import functools
import io
import struct
from pathlib import Path
from random import Random
from typing import Any

import av
import numpy as np
import soundfile
from fuzz.kind import Files, Kind
from fuzz.mutations import NUMBERS, mutated

from ds2.audio.files import iter_audio_bytes, probe
from ds2.audio.tensors import read_audio
from ds2.recognition.recognizer import Recognizer

AUDIO = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
SECONDS = 0.5
SUBTYPES = ("PCM_16", "PCM_24", "PCM_U8", "FLOAT", "DOUBLE", "ULAW", "IMA_ADPCM", "MS_ADPCM")
OTHERS = (("OGG", "VORBIS"), ("OGG", "OPUS"), *((form, None) for form in "FLAC MP3 AIFF AU CAF W64 RF64 NIST".split()))
BOXED = (("webm", "libopus", "webm"), ("matroska", "libopus", "mkv"), ("mp4", "aac", "m4a"), ("adts", "aac", "aac"))
RATE = 16_000


def seeds() -> list[Files]:
    """Half a second of speech in each format, and one recording as it is in the repository."""
    samples = soundfile.read(AUDIO / "fsdd_theo_test.flac", frames=int(8000 * SECONDS), dtype="float32")[0]
    samples = np.repeat(samples, RATE // 8000)
    files = [_encoded(samples, "WAV", subtype) for subtype in SUBTYPES]
    files += [_encoded(samples, form, subtype) for form, subtype in OTHERS]
    files += [_boxed(samples, *box) for box in BOXED]
    small = min((path for path in AUDIO.glob("so762_*.opus")), key=lambda path: (path.stat().st_size, path))
    return [{f"sound.{suffix}": data} for suffix, data in files] + [{"sound.opus": small.read_bytes()}]


def _encoded(samples: np.ndarray, form: str, subtype: str | None) -> tuple[str, bytes]:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format=form, subtype=subtype)
    data = file.getvalue()
    return form.lower(), sealed(data, serial=1) if form == "OGG" else data


def _boxed(samples: np.ndarray, form: str, codec: str, suffix: str) -> tuple[str, bytes]:
    """Written by FFmpeg: the same bytes each time."""
    file = io.BytesIO()
    with av.open(file, "w", format=form, options={"fflags": "+bitexact"}) as container:
        stream: Any = container.add_stream(codec, rate=RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray((samples * 32767).astype(np.int16)[None], "s16", "mono")
        frame.sample_rate = RATE
        resampler = av.AudioResampler("fltp" if codec == "aac" else "flt", "mono", RATE)
        for piece in [*resampler.resample(frame), None]:
            container.mux(stream.encode(piece))
    return suffix, file.getvalue()


def make(rng: Random, valid: list[Files]) -> Files:
    """A changed recording; one in four has a crafted header instead."""
    if rng.random() < 0.25:
        return {"sound.wav": _wav(rng)} if rng.random() < 0.5 else {"sound.flac": _flac(rng)}
    [(name, data)] = rng.choice(valid).items()
    [other] = rng.choice(valid).values()
    data = mutated(rng, data, other)
    return {name: sealed(data) if rng.random() < 0.8 else data}


def _wav(rng: Random) -> bytes:
    """Chunks whose fields are drawn from what is usual and what is extreme."""

    def field(size: int, *usual: int) -> bytes:
        value = rng.choice(usual) if rng.random() < 0.8 else rng.choice(NUMBERS)
        return (value % 2 ** (8 * size)).to_bytes(size, "little")

    data = rng.randbytes(rng.choice((0, 1, 7, 4000, 40_000)))
    channels, width = rng.choice((1, 2, 8)), rng.choice((1, 2, 3, 4, 8))
    form = field(2, 1, 1, 2, 3, 6, 7, 17, 49, 0xFFFE) + field(2, channels) + field(4, 8000, 16_000, 44_100, 96_000)
    form += field(4, 16_000 * channels * width) + field(2, channels * width) + field(2, 8 * width)
    form += rng.choice((b"", field(2, 0, 22) + rng.randbytes(22)))
    chunks = [b"fmt " + field(4, len(form)) + form, b"data" + field(4, len(data)) + data]
    if rng.random() < 0.3:
        chunks.insert(
            rng.randrange(3), rng.choice((b"LIST", b"fact", b"cue ", b"bext", b"fmt ")) + field(4, 4) + b"abcd"
        )
    body = b"WAVE" + b"".join(chunks)
    return rng.choice((b"RIFF", b"RIFF", b"RIFX", b"RF64")) + field(4, len(body)) + body


def _flac(rng: Random) -> bytes:
    """Real frames behind a STREAMINFO of other rates, channels, widths and lengths."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(rng.choice((1, 5000, 1_000_000)), np.int16), 16_000, format="FLAC")
    data = bytearray(file.getvalue())
    rate = rng.choice((1, 8000, 16_000, 96_000, 655_350, 2**20 - 1))
    total = rng.choice((0, 1, 5000, 1_000_000, 2**31, 2**36 - 1))
    packed = rate << 44 | rng.choice((0, 0, 1, 7)) << 41 | rng.choice((7, 15, 15, 23, 31)) << 36 | total
    data[18:26] = struct.pack(">Q", packed)
    if rng.random() < 0.3:
        data[8:12] = struct.pack(">HH", *(rng.choice((0, 1, 16, 4096, 65535)) for _ in range(2)))
    return bytes(data)


def sealed(data: bytes, serial: int | None = None) -> bytes:
    """The same Ogg pages with right checksums, so that what is in them is read; other bytes as they are."""
    pages, start = bytearray(data), data.find(b"OggS")
    while start >= 0:
        end = data.find(b"OggS", start + 4)
        size = (len(data) if end < 0 else end) - start
        if size >= 27:
            if serial is not None:
                pages[start + 14 : start + 18] = struct.pack("<I", serial)
            pages[start + 22 : start + 26] = bytes(4)
            pages[start + 22 : start + 26] = struct.pack("<I", _checksum(bytes(pages[start : start + size])))
        start = end
    return bytes(pages)


def _checksum(page: bytes) -> int:
    """Ogg's CRC-32: polynomial 0x04c11db7, not reflected."""
    value = 0
    for byte in page:
        value = (value << 8 & 0xFFFFFFFF) ^ TABLE[value >> 24 ^ byte]
    return value


def _table() -> list[int]:
    values = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value >> 31 else 0)) & 0xFFFFFFFF
        values.append(value)
    return values


TABLE = _table()


def enter(path: Path) -> None:
    """By its path, whole and in part, and by its bytes, as an upload comes."""
    probe(path)
    read_audio(path, RATE)
    read_audio(path, offset=0.1, duration=0.2)
    for _ in iter_audio_bytes(path.read_bytes(), RATE, longest=600.0):
        pass


@functools.cache
def _recognizer() -> Recognizer:
    return Recognizer.load("digits-streaming", "cpu")


def enter_transcribe(path: Path) -> None:
    """With the smallest model of the package."""
    _recognizer().transcribe(path.read_bytes())


KIND = Kind(seeds, make, enter)
TRANSCRIBE = Kind(seeds, make, enter_transcribe)
