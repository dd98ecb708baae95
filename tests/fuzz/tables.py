"""Hostile tables: compiled manifests in Arrow, and Parquet."""

import io
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import soundfile
from fuzz.kind import Files, Kind
from fuzz.mutations import mutated
from fuzz.texts import ROWS

from ds2.data import compiled
from ds2.data.columnar import durations, folders, values
from ds2.data.corpus_rows import measured
from ds2.data.layouts import parquet
from ds2.data.manifest import read_manifest, summary, write_manifest
from ds2.utils.errors import InputError

TEXTS = (None, "", "\0", "a\nb", "../../x", "\udcff", "a" * 100_000, "[" * 5000, "9" * 5000, "{", "5", "null", "{}")
NUMBERS = (None, 0.0, -0.0, -1.0, 1e308, float("nan"), float("inf"), float("-inf"))
INTEGERS = (None, 0, -1, 2**63 - 1)
HOSTILE = {"string": TEXTS, "double": NUMBERS, "int64": INTEGERS}
MANIFEST_COLUMNS = ("audio_filepath", "duration", "text", "offset", "lang", "note", "source")


def compiled_seeds() -> list[Files]:
    """The manifest of `texts`, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "m.jsonl"), Path(folder, "m.arrow")
        source.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))
        compiled.compile_manifest(source, target)
        return [{"m.arrow": target.read_bytes()}]


def make_compiled(rng: Random, valid: list[Files]) -> Files:
    """Bytes changed, or values in a file that is well formed."""
    data = rng.choice(valid)["m.arrow"]
    if rng.random() < 0.6:
        return {"m.arrow": mutated(rng, data)}
    table = pyarrow.ipc.open_file(data).read_all()
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    for name in rng.sample(list(columns), rng.choice((1, 1, 3))):
        columns[name][rng.randrange(len(table))] = _clean(rng.choice(HOSTILE[compiled.KINDS[name]]))
    changed, sink = pyarrow.table(columns, schema=table.schema), io.BytesIO()
    with pyarrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(changed)
    return {"m.arrow": sink.getvalue()}


def _clean(value: Any) -> Any:
    """Arrow writes no lone surrogates."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def enter_compiled(path: Path) -> None:
    """By rows and by columns; what was read can be written, and reads as the same."""
    utterances = read_manifest(path)
    copy = path.with_name("copy.jsonl")
    write_manifest(copy, utterances)
    try:
        again = read_manifest(copy)
    except InputError as error:
        raise AssertionError(f"refused only when it was written and read again: {error}") from error
    assert [each.text for each in again] == [each.text for each in utterances]
    summary(utterances)
    assert np.isfinite(durations(utterances)).all()
    folders(utterances)
    list(values(utterances, "speaker"))


def parquet_seeds() -> list[Files]:
    """Audio in the rows, as Hugging Face has it; and the rows of a manifest."""
    sound = io.BytesIO()
    soundfile.write(sound, np.arange(-800, 800, dtype=np.int16), 8000, format="WAV")
    row = {"audio": {"bytes": sound.getvalue(), "path": "a.wav"}, "text": "one", "speaker_id": "ada", "duration": 0.2}
    manifest = [{name: row.get(name) for name in MANIFEST_COLUMNS} for row in ROWS]
    return [{"t.parquet": _parquet([row] * 3)}, {"t.parquet": _parquet(manifest)}]


def make_parquet(rng: Random, valid: list[Files]) -> Files:
    """Bytes changed, or columns of other types and values."""
    data = rng.choice(valid)["t.parquet"]
    if rng.random() < 0.6:
        return {"t.parquet": mutated(rng, data)}
    rows = pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    name = rng.choice(list(rows[0]))
    kinds = (*HOSTILE.values(), [b"", b"RIFF", b"\0" * 100], [{"bytes": 5, "path": "x"}], [{"bytes": None}], [[1]])
    column = rng.choice(kinds)
    for row in rows:
        row[name] = _clean(rng.choice(column))
    return {"t.parquet": _parquet(rows)}


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return sink.getvalue()


def enter_parquet(path: Path) -> None:
    """As a corpus to convert."""
    _, skipped = measured(parquet.read(path, path.parent / "audio"))
    if skipped:
        raise InputError(skipped[0])


def enter_parquet_manifest(path: Path) -> None:
    compiled.compile_manifest(path, path.with_name("m.arrow"))


COMPILED = Kind(compiled_seeds, make_compiled, enter_compiled)
PARQUET = Kind(lambda: parquet_seeds()[:1], make_parquet, enter_parquet)
PARQUET_MANIFEST = Kind(lambda: parquet_seeds()[1:], make_parquet, enter_parquet_manifest)
