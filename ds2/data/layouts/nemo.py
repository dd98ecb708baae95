"""NeMo's manifests: our own form, except that lines may lack text or name the same audio twice."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ds2.data.corpus_rows import Row
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines

NAMES = {  # of our keys, and the end of a span: what they are called in tables of others
    "audio_filepath": ("audio_filepath", "path", "file", "file_name", "filename", "audio", "wav", "wav_filename"),
    "text": ("text", "sentence", "transcript", "transcription"),
    "speaker": ("speaker", "speaker_id", "client_id"),
    "lang": ("lang", "language", "locale"),
    "offset": ("offset", "start", "start_time", "begin", "begin_time"),
    "end": ("end", "end_time"),
    "duration": ("duration",),
}
IN_FOLDERS = ("metadata.jsonl", "manifest.jsonl")  # beside audio: the first for Hugging Face
CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d\d(?:\.\d*)?)")  # hours, minutes, seconds
OURS = ("audio_filepath", "duration", "text", "offset", "speaker", "lang")


def read(source: Path, _: Path) -> Iterator[Row]:
    """A manifest in JSON Lines, or that in a folder; paths are relative to it.

    A line with an impossible offset or duration has a problem.

    Raises:
        InputError: naming the line that lacks an audio_filepath.
    """
    source = manifest_in(source) or source
    for number, line in numbered_lines(source):
        yield make_row(_nemo_values(line, f"{source}:{number}"), source.parent, f"{source}:{number}")


def manifest_in(folder: Path) -> Path | None:
    """The manifest of a folder; None if it has none, or is none."""
    return next((folder / name for name in IN_FOLDERS if (folder / name).is_file()), None)


def _nemo_values(line: str, place: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not valid JSON ({error!s:.60})") from error
    values = _with_our_keys(values) if isinstance(values, dict) else {}
    if not isinstance(values.get("audio_filepath"), str):
        raise InputError(f'{place}: expected an object {{"audio_filepath": ...}}, got {line!r:.60}')
    return values


def _with_our_keys(values: dict[str, Any]) -> dict[str, Any]:
    """The values of others with a path and a text under our keys, if they have texts under names for these."""
    found = dict(values)
    for key in ("audio_filepath", "text"):
        names = [name for name in NAMES[key] if isinstance(values.get(name), str)]
        if key not in values and names:
            found[key] = found.pop(names[0])
    return found


def key_of(name: str) -> str:
    """Our key for what others call so; the name itself where it is none of NAMES."""
    return next((key for key, names in NAMES.items() if name.strip().lower() in names), name.strip())


def make_row(values: dict[str, Any], folder: Path, place: str) -> Row:
    """The row of a manifest's values, with a problem where its offset or duration is impossible.

    The audio lies relative to the folder.
    """
    audio = folder / values["audio_filepath"]
    try:
        offset = seconds_of(values, "offset", place)
        duration = None if offset is None else seconds_of(values, "duration", place) or None
    except InputError as error:
        return Row(audio, "", problem=str(error))
    extra = {key: value for key, value in values.items() if key not in OURS}
    text, speaker, lang = str(values.get("text") or ""), _name(values, "speaker"), _name(values, "lang")
    return Row(audio, text, speaker, lang, offset, duration, extra, place)


def seconds_of(values: dict[str, Any], key: str, place: str) -> float | None:
    """The seconds that stand under a key, also as a clock shows them (1:02.5); None where nothing does.

    Raises:
        InputError: they are below 0, or no number.
    """
    value = values.get(key)
    if value is None:
        return None
    try:
        clock = CLOCK.fullmatch(value) if isinstance(value, str) else None
        parts = map(float, clock.groups("0")) if clock else (0.0, 0.0, float(value))
        seconds = sum(unit * part for unit, part in zip((3600, 60, 1), parts, strict=True))
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds <= sys.float_info.max:
        remedy = "; write decimals with a point" if "," in str(value) else ""
        raise InputError(f"{place}: {key} must be 0 or more seconds, got {value!r:.60}{remedy}")
    return seconds


def _name(values: dict[str, Any], key: str) -> str | None:
    return None if values.get(key) is None else str(values[key])
