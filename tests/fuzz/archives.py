"""Hostile shards, with an index or without."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import soundfile
from fuzz.kind import Files, Kind
from fuzz.mutations import dumped, mutated, mutated_json

from ds2.audio.tensors import read_audio
from ds2.data import shards
from ds2.utils.errors import InputError

SHARD, INDEX = "shard.tar", "shard.tar.index"
BLOCK = 512  # bytes of a header in a tar
FIELDS = ((0, 100), (100, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155))  # place, size


def seeds() -> list[Files]:
    """Three utterances, with an index and without."""
    sound = io.BytesIO()
    soundfile.write(sound, np.arange(-800, 800, dtype=np.int16), 8000, format="FLAC")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(3):
            about = json.dumps({"text": "one", "duration": 0.2, "speaker": "ada", "take": number}).encode()
            for suffix, content in ((".flac", sound.getvalue()), (".json", about)):
                member = tarfile.TarInfo(f"{number:09}{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        member = tarfile.TarInfo("000000000.txt")
        tar.addfile(member, io.BytesIO())
    data = buffer.getvalue()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        places = {member.name: (member.offset_data, member.size) for member in tar}
    return [{SHARD: data}, {SHARD: data, INDEX: json.dumps({"bytes": len(data), "members": places}).encode()}]


def make(rng: Random, valid: list[Files]) -> Files:
    """Index, headers (their checksums right), or any bytes changed."""
    files = dict(rng.choice(valid))
    if INDEX in files and rng.random() < 0.6:
        index = dumped(mutated_json(rng, json.loads(files[INDEX])))
        return {SHARD: files[SHARD], INDEX: index if rng.random() < 0.8 else mutated(rng, index)}
    if rng.random() < 0.3:
        return files | {SHARD: mutated(rng, files[SHARD])}
    return files | {SHARD: _headers_changed(rng, files[SHARD])}


def _headers_changed(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    headers = [start for start in range(0, len(data), BLOCK) if data[start + 257 : start + 262] == b"ustar"]
    for start in rng.sample(headers, rng.choice((1, 1, 3))):
        place, size = rng.choice(FIELDS)
        value = rng.choice(
            (
                b"\0",
                b"7" * size,
                b"\xff" * size,
                b"\xff" * (size - 2) + b"\xfa\0",
                b"\x80" + bytes(size),
                b"-1",
                b"../../x",
                rng.randbytes(size),
            )
        )
        if place == 156:
            value = rng.choice(b"01234567gxLKSXD\0").to_bytes()
        changed[start + place : start + place + size] = value[:size].ljust(size, b"\0")
        changed[start + 148 : start + 156] = b" " * 8
        changed[start + 148 : start + 156] = b"%06o\0 " % sum(changed[start : start + BLOCK])
    return bytes(changed)


def enter(path: Path) -> None:
    """The members, by the index where there is one; all of it as a stream; and the rows, which writes the index."""
    ways = (_read_members, _read_stream, _read_rows)
    errors = [error for way in ways if (error := _error(way, path)) is not None]
    if errors:
        raise errors[0]


def _error(way: Callable[[Path], None], path: Path) -> InputError | None:
    try:
        way(path)
    except InputError as error:
        return error
    return None


def _read_members(path: Path) -> None:
    for number in range(3):
        read_audio(path / f"{number:09}.flac")


def _read_stream(path: Path) -> None:
    with path.open("rb") as file:
        for _ in shards.stream(file):
            pass


def _read_rows(path: Path) -> None:
    for row in shards.read(path, path.parent):
        read_audio(row.audio)


KIND = Kind(seeds, make, enter)
