"""Hugging Face's parquet: one table or many, the encoded audio in the rows."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ds2.data.corpus_rows import Row
from ds2.data.encode import encoded
from ds2.data.layouts.regular_files import regular_files
from ds2.data.parquet_file import iter_rows, opened_table, plain_columns
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder

TEXT = ("text", "sentence", "transcription", "transcript", "normalized_text")  # the first that is there
SPEAKER = ("speaker_id", "speaker", "client_id")
OWN = ("audio", *TEXT, *SPEAKER, "duration", "offset")  # columns that mean something
TYPES = {str: "string", int: "int64", float: "float64", bool: "bool"}  # of other columns
SUFFIX = re.compile(r"\.[0-9A-Za-z]{1,8}")  # of the file that a row names, and of the one that is written
ROWS = 100  # that are written at a time


def read(source: Path, audio_folder: Path) -> Iterator[Row]:
    """The rows of a table, or of all tables in a folder; their audio is written into `audio_folder`.

    Raises:
        InputError: a table lacks audio or text.
    """
    tables = sorted(regular_files(source, "*.parquet")) if source.is_dir() else [source]
    make_folder(audio_folder)
    for path in tables:
        yield from _table(path, audio_folder)


def write(target: Path, utterances: Sequence[Utterance]) -> None:
    """One table with the columns audio, text, speaker_id and duration, as `datasets` writes it.

    Other keys whose values are texts, numbers or truth values, of one kind in all utterances, are columns, too.
    """
    import pyarrow
    import pyarrow.parquet

    audio = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    columns = {"audio": audio, "text": pyarrow.string(), "speaker_id": pyarrow.string(), "duration": pyarrow.float64()}
    extras = columns_of_extras(utterances)
    columns |= {name: pyarrow.type_for_alias(kind) for name, kind in extras.items()}
    values = {"text": "string", "speaker_id": "string", "duration": "float64"} | extras
    kinds = {"audio": {"_type": "Audio"}} | {name: {"dtype": kind, "_type": "Value"} for name, kind in values.items()}
    features = {"huggingface": json.dumps({"info": {"features": kinds}})}
    schema = pyarrow.schema(list(columns.items()), metadata=features)
    with atomic_write(target) as partial, pyarrow.parquet.ParquetWriter(partial, schema) as writer:
        for start in range(0, len(utterances), ROWS):
            rows = [_parquet_values(utterance, extras) for utterance in utterances[start : start + ROWS]]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))


def columns_of_extras(utterances: Sequence[Utterance]) -> dict[str, str]:
    """The other keys that a table holds, and the types of their columns: those whose values all have one type."""
    found: dict[str, set[str | None]] = {}
    for utterance in utterances:
        for key, value in (utterance.extra | {"lang": utterance.lang}).items():
            if value is not None:
                found.setdefault(key, set()).add(_column_type(value))
    kinds = {key: types.pop() for key, types in found.items() if len(types) == 1 and key not in OWN}
    return {key: kind for key, kind in kinds.items() if kind is not None}


def _column_type(value: object) -> str | None:
    return None if isinstance(value, int) and not -(2**63) <= value < 2**63 else TYPES.get(type(value))


def lost_in_parquet(utterances: Sequence[Utterance]) -> set[str]:
    """The other keys for which the table has no column."""
    return {key for each in utterances for key in each.extra} - columns_of_extras(utterances).keys()


def _parquet_values(utterance: Utterance, extras: Iterable[str]) -> dict[str, Any]:
    data, suffix = encoded(utterance)
    audio = {"bytes": data, "path": f"{utterance.audio_path.stem}{suffix}"}
    return {
        "audio": audio,
        "text": utterance.text,
        "speaker_id": utterance.speaker,
        "duration": utterance.duration,
        **{key: utterance.lang if key == "lang" else utterance.extra.get(key) for key in extras},
    }


def _table(path: Path, audio_folder: Path) -> Iterator[Row]:
    with opened_table(path) as table:
        columns = plain_columns(table)
        names, plain = table.schema_arrow.names, {column.partition(".")[0] for column in columns}
        text = next((name for name in TEXT if name in plain), None)
        if text is None or "audio" not in names:
            raise InputError(
                f"{path}: has the columns {', '.join(names)}; audio and one of {', '.join(TEXT)} are needed"
            )
        if "audio" not in plain:
            raise InputError(f"{path}: audio must hold bytes and a path, not a list")
        speaker = next((name for name in SPEAKER if name in plain), "")
        for number, values in enumerate(iter_rows(path, table, columns)):
            place = f"{path}: row {number}"
            audio = _extracted(values["audio"], audio_folder / f"{path.stem}-{number:06}", place)
            kept = {key: value for key, value in values.items() if isinstance(value, str | int | float)}
            extra = {key: value for key, value in kept.items() if key not in (text, speaker, "duration")}
            name, lang = values.get(speaker), extra.pop("lang", None)
            who, what = (None if each is None else str(each) for each in (name, lang))
            yield Row(audio, str(values[text] or ""), who, what, extra=extra, place=place)


def _extracted(audio: Any, target: Path, place: str) -> Path:
    """The file of a row: the one that it names, or its bytes written down."""
    audio = {} if audio is None else audio
    data, name = (audio.get("bytes"), audio.get("path")) if isinstance(audio, dict) else (audio, "")
    name = name or ""
    if not isinstance(data, bytes | None) or not isinstance(name, str):
        raise InputError(f"{place}: audio must hold bytes and a path, got {audio!r:.60}")
    if data is None:
        if not name:
            raise InputError(f"{place}: holds neither audio nor its path")
        return Path(name)
    suffix = Path(name).suffix
    target = target.with_name(target.name + (suffix if SUFFIX.fullmatch(suffix) else ".wav"))
    with atomic_write(target) as partial:  # always: what is there may be of an earlier state of the table
        partial.write_bytes(data)
    return target
