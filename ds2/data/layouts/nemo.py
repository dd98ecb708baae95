"""NeMo's manifests: our own form, but that lines may lack text or name audio twice."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ds2.data.corpus import Row
from ds2.errors import InputError
from ds2.files import read_text

OURS = ("audio_filepath", "duration", "text", "offset", "speaker", "lang")


def read(source: Path, _: Path) -> Iterator[Row]:
    """A manifest in JSON Lines; paths are relative to it.

    Raises:
        InputError: naming the line that is no object with an audio_filepath.
    """
    for number, line in enumerate(read_text(source).splitlines(), 1):
        if line.strip():
            yield _row(_values(line, f"{source}:{number}"), source.parent, f"{source}:{number}")


def _values(line: str, place: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{place}: not valid JSON ({error.msg})") from error
    if not isinstance(values, dict) or not isinstance(values.get("audio_filepath"), str):
        raise InputError(f'{place}: expected an object {{"audio_filepath": ...}}, got {line!r:.60}')
    return values


def _row(values: dict[str, Any], folder: Path, place: str) -> Row:
    part = values.get("offset") is not None
    return Row(
        folder / values["audio_filepath"],
        str(values.get("text") or ""),
        None if values.get("speaker") is None else str(values["speaker"]),
        values.get("lang"),
        float(values["offset"]) if part else None,
        float(values["duration"]) if part and values.get("duration") else None,
        {key: value for key, value in values.items() if key not in OURS},
        place,
    )
