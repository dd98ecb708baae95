"""NeMo's manifests: our own form, except that lines may lack text or name the same audio twice."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ds2.data.corpus_rows import Row
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines

OURS = ("audio_filepath", "duration", "text", "offset", "speaker", "lang")


def read(source: Path, _: Path) -> Iterator[Row]:
    """A manifest in JSON Lines; paths are relative to it.

    A line with an impossible offset or duration has a problem.

    Raises:
        InputError: naming the line that lacks an audio_filepath.
    """
    for number, line in numbered_lines(source):
        yield make_row(_nemo_values(line, f"{source}:{number}"), source.parent, f"{source}:{number}")


def _nemo_values(line: str, place: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not valid JSON ({error!s:.60})") from error
    if not isinstance(values, dict) or not isinstance(values.get("audio_filepath"), str):
        raise InputError(f'{place}: expected an object {{"audio_filepath": ...}}, got {line!r:.60}')
    return values


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
    """The seconds that stand under a key; None where nothing does.

    Raises:
        InputError: they are below 0, or no number.
    """
    value = values.get(key)
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds <= sys.float_info.max:
        remedy = "; write decimals with a point" if "," in str(value) else ""
        raise InputError(f"{place}: {key} must be 0 or more seconds, got {value!r:.60}{remedy}")
    return seconds


def _name(values: dict[str, Any], key: str) -> str | None:
    return None if values.get(key) is None else str(values[key])
