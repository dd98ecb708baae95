"""Hugging Face's parquet: one table or many, the encoded audio in the rows."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ds2.data.corpus_rows import Row
from ds2.data.encode import encoded
from ds2.data.parquet_file import iter_rows, opened_table, plain_columns
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder

TEXT = ("text", "sentence", "transcription", "transcript", "normalized_text")  # the first that is there
SPEAKER = ("speaker_id", "speaker", "client_id")
ROWS = 100  # that are written at a time


def read(source: Path, audio_folder: Path) -> Iterator[Row]:
    """The rows of a table, or of all tables in a folder; their audio is written into `audio_folder`.

    Raises:
        InputError: a table lacks audio or text.
    """
    tables = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
    make_folder(audio_folder)
    for path in tables:
        yield from _table(path, audio_folder)


def write(target: Path, utterances: Sequence[Utterance]) -> None:
    """One table with the columns audio, text, speaker_id and duration, as `datasets` writes it."""
    import pyarrow
    import pyarrow.parquet

    audio = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    columns = {"audio": audio, "text": pyarrow.string(), "speaker_id": pyarrow.string(), "duration": pyarrow.float64()}
    kinds = {"audio": {"_type": "Audio"}} | {
        name: {"dtype": "float64" if name == "duration" else "string", "_type": "Value"} for name in list(columns)[1:]
    }
    features = {"huggingface": json.dumps({"info": {"features": kinds}})}
    schema = pyarrow.schema(list(columns.items()), metadata=features)
    with atomic_write(target) as partial, pyarrow.parquet.ParquetWriter(partial, schema) as writer:
        for start in range(0, len(utterances), ROWS):
            rows = [_parquet_values(utterance) for utterance in utterances[start : start + ROWS]]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))


def _parquet_values(utterance: Utterance) -> dict[str, Any]:
    data, suffix = encoded(utterance)
    audio = {"bytes": data, "path": f"{utterance.audio_path.stem}{suffix}"}
    return {
        "audio": audio,
        "text": utterance.text,
        "speaker_id": utterance.speaker,
        "duration": utterance.duration,
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
            name = values.get(speaker)
            yield Row(audio, str(values[text] or ""), None if name is None else str(name), extra=extra, place=place)


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
    target = target.with_name(target.name + (Path(name).suffix or ".wav"))
    with atomic_write(target) as partial:  # always: what is there may be of an earlier state of the table
        partial.write_bytes(data)
    return target
