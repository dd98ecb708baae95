"""Lines of JSON -> checked values of utterances. Every error names the line.

A block of lines is decoded and checked at once; only where something is wrong, or keys beyond the usual ones are
there, it is read line by line.
"""

import codecs
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import msgspec
import numpy as np
from msgspec import Meta

from ds2.utils.errors import InputError
from ds2.utils.object_storage import mirrored, url_of
from ds2.utils.storage_cache import mirror_folder

NUMBER, TEXT, OPTIONAL = (float, int), (str,), (type(None),)
KINDS: dict[str, tuple[type, ...]] = {  # of the values in JSON; a key that may be null may also be absent
    "audio_filepath": TEXT,
    "duration": NUMBER,
    "text": TEXT,
    "offset": NUMBER + OPTIONAL,
    "speaker": TEXT + OPTIONAL,
    "lang": TEXT + OPTIONAL,
}
MOST_SECONDS = 1e7  # 115 days: no recording is longer
MOST_CHARACTERS = {"text": 1_000_000, "audio_filepath": 4096, "speaker": 1000, "lang": 1000}  # a text: a day's speech
SURROGATE = re.compile("[\ud800-\udfff]")  # one of a pair in UTF-16, which no file in UTF-8 can hold
BLOCK = 1 << 23  # bytes of a file that are read at once, and the rest of the last line
EXAMPLE = '{"audio_filepath": "a.wav", "duration": 3.2, "text": "two five"}'


class Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The usual values of a line; durations and offsets in seconds."""

    audio_filepath: Annotated[str, Meta(max_length=MOST_CHARACTERS["audio_filepath"])]
    duration: float
    text: Annotated[str, Meta(max_length=MOST_CHARACTERS["text"])]
    offset: float | None = None
    speaker: Annotated[str, Meta(max_length=MOST_CHARACTERS["speaker"])] | None = None
    lang: Annotated[str, Meta(max_length=MOST_CHARACTERS["lang"])] | None = None


class Block(NamedTuple):
    """Neighbouring lines that are not blank: their numbers, from 1, values, and other keys where a line has some."""

    numbers: list[int] | range
    lines: list[Line]
    extras: list[dict[str, Any]]


_decode_block = msgspec.json.Decoder(Line).decode_lines
_decode = msgspec.json.Decoder().decode
NO_EXTRA: dict[str, Any] = {}
Refuse = Callable[[str, InputError], object]  # takes the place of a line, and what is wrong with it


def raise_refusal(place: str, error: InputError) -> NoReturn:
    """Ends the reading at the first wrong line."""
    raise error


def read_blocks(path: Path, refuse: Refuse = raise_refusal) -> Iterator[Block]:
    """The lines of a manifest, checked, block by block; what `refuse` returns from is left out.

    Raises:
        InputError: naming the line: not JSON, a key missing or of the wrong type, an impossible duration or offset;
            or the file is missing or not UTF-8.
    """
    first = 1
    try:
        with path.open("rb") as file:
            while data := file.read(BLOCK) + file.readline():
                if first == 1:
                    data = data.removeprefix(codecs.BOM_UTF8)
                count = data.count(b"\n") + (not data.endswith(b"\n"))
                yield _fast(data, first, count) or _slow(data, first, str(path), refuse)
                first += count
    except OSError as error:
        remedy = "; ds2 data convert makes one of a corpus" if path.is_dir() else ""
        raise InputError(f"{path}: cannot read the manifest ({error.strerror}){remedy}") from error


def absolute_audio(folder: Path) -> Callable[[str], str]:
    """A function that makes the paths of a manifest in this folder absolute, each file's always the same."""
    before = os.path.join(folder.absolute(), "")

    def absolute(audio: str) -> str:
        if "./" in audio or "//" in audio:  # "./a.wav" is "a.wav"; a URL
            audio = str(mirrored(audio))
        return audio if os.path.isabs(audio) else before + audio

    return absolute


def relative_audio(folder: Path) -> Callable[[str], str]:
    """A function that names absolute paths as a manifest in this folder does: relative below it, URLs of the mirror."""
    before, mirror = os.path.join(folder.absolute(), ""), os.path.join(mirror_folder(), "")
    if before.startswith(mirror):
        mirror = "\0"  # which no path begins with: here, too, shards lie beside their manifest

    def relative(audio: str) -> str:
        return (audio.startswith(mirror) and url_of(audio)) or audio.removeprefix(before)

    return relative


def duplicate(name: str, number: int, other: int) -> InputError:
    """The error for a line whose audio is that of another line."""
    return InputError(f"{name}:{number}: duplicate of {name}:{other}, the same audio again; remove one")


def checked_line(values: Any, place: str) -> tuple[Line, dict[str, Any]]:
    """The usual values of an object, and its other keys.

    Raises:
        InputError: it is no object, or a value is missing, of the wrong type or impossible.
    """
    _check_line(values, place)
    usual = {key: values[key] for key in KINDS if key in values}
    if usual.get("offset") is not None:
        usual["offset"] = float(usual["offset"])
    line = Line(**{**usual, "duration": float(usual["duration"])})
    return line, {key: value for key, value in values.items() if key not in KINDS}


def _fast(data: bytes, first: int, count: int) -> Block | None:
    """The block, if every line holds the usual keys with possible values."""
    try:
        lines = _decode_block(data)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    if len(lines) != count:  # blank lines
        return None
    durations = np.fromiter((line.duration for line in lines), np.float64, count)
    offsets = np.fromiter((line.offset or 0.0 for line in lines), np.float64, count)
    possible = (durations > 0) & (durations <= MOST_SECONDS) & (offsets >= 0) & (offsets <= MOST_SECONDS)
    if not possible.all():
        return None
    return Block(range(first, first + count), lines, [NO_EXTRA] * count)


def _slow(data: bytes, first: int, name: str, refuse: Refuse) -> Block:
    """The block line by line, as json, too, reads it."""
    numbers, lines, extras = [], [], []
    for number, raw in enumerate(data.split(b"\n"), first):
        if raw and not raw.isspace():
            place = f"{name}:{number}"
            try:
                line, extra = checked_line(_decoded_line(raw, place), place)
            except InputError as error:
                refuse(place, error)
                continue
            numbers.append(number)
            lines.append(line)
            extras.append(extra)
    return Block(numbers, lines, extras)


def _decoded_line(line: bytes, place: str) -> Any:
    """The values of a line; json, which is slower, reads and explains what msgspec refuses."""
    try:
        return _decode(line)
    except (ValueError, RecursionError):  # also unpaired surrogates, NaN and Infinity, which json takes
        pass
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not valid UTF-8; convert the manifest") from error
    except json.JSONDecodeError as error:
        wrong = f"not valid JSON ({error.msg} at column {error.colno})"
        raise InputError(f"{place}: {wrong}; each line of a manifest is like {EXAMPLE}") from error
    except (ValueError, RecursionError) as error:  # thousands of digits, thousands of brackets
        raise InputError(f"{place}: not valid JSON ({error!s:.60})") from error


def _check_line(values: Any, place: str) -> None:
    if type(values) is not dict:
        raise InputError(f'{place}: expected an object {{"audio_filepath": ...}}, got {values!r:.60}')
    for key, kinds in KINDS.items():
        if type(values.get(key)) not in kinds:
            _refuse_value(values, key, place)
    duration, offset = values["duration"], values.get("offset")
    if not 0 < duration <= MOST_SECONDS:  # which NaN fails, too
        raise InputError(f"{place}: duration must be positive seconds, up to {MOST_SECONDS:g}, got {duration!r:.60}")
    if offset is not None and not 0 <= offset <= MOST_SECONDS:
        raise InputError(f"{place}: offset must be 0 or more seconds, up to {MOST_SECONDS:g}, got {offset!r:.60}")
    for key, most in MOST_CHARACTERS.items():
        if (length := len(values.get(key) or "")) > most:
            raise InputError(f"{place}: {key} must have up to {most:,} characters, got {length:,}")
        if key != "audio_filepath" and SURROGATE.search(values.get(key) or ""):  # a file's name need not be UTF-8
            raise InputError(f"{place}: {key} holds half a character, {values[key]!r:.60}; write the manifest again")


def _refuse_value(values: dict[str, Any], key: str, place: str) -> NoReturn:
    if key not in values:
        hint = "; ds2 data convert reads it from the audio" if key == "duration" else ""
        raise InputError(f"{place}: lacks {key}{hint}")
    kind = "number" if float in KINDS[key] else "string"
    remedy = f'; write it in quotes, "{values[key]!s:.60}"' if kind == "string" and type(values[key]) in NUMBER else ""
    raise InputError(f"{place}: {key} must be a {kind}, got {values[key]!r:.60}{remedy}")
