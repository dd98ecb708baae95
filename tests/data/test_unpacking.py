"""Tables of a few kilobytes that would unpack to gigabytes are refused in one line before they do.

The limits are small here, so that a test whose limit does not hold fills megabytes.
"""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from ds2.data import parquet_file
from ds2.data.compiled import compile_manifest, schema
from ds2.data.layouts import parquet
from ds2.data.manifest import read_manifest
from ds2.utils.errors import InputError

MILLION = 1_000_000


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "LARGE_TEXT", MILLION)


def table(path: Path, rows: int = 1, **columns: Any) -> Path:
    usual = {"audio_filepath": [f"{number}.wav" for number in range(rows)], "duration": [1.0] * rows}
    pyarrow.parquet.write_table(pyarrow.table({**usual, "text": ["x"] * rows, **columns}), path, compression="zstd")
    assert path.stat().st_size < 20_000
    return path


@pytest.mark.parametrize(
    "columns",
    [
        {"rows": 1000, "text": ["a" * 10_000] * 1000},  # one text, repeated by the table's dictionary
        {"rows": 1, "text": ["a" * 10 * MILLION]},  # a page that is compressed
    ],
    ids=["dictionary", "page"],
)
def test_a_table_that_unpacks_far_beyond_its_size_is_refused(columns: dict[str, Any], tmp_path: Path) -> None:
    source = table(tmp_path / "m.parquet", **columns)
    with pytest.raises(InputError, match=r"m\.parquet: unpacks to .* over 200 times its size"):
        compile_manifest(source, tmp_path / "m.arrow")
    assert not (tmp_path / "m.arrow").exists()


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        (1000, [{"deep": ["a" * 10_000]}] * 1000),
        (1000, pyarrow.array([[("k", "a" * 10_000)]] * 1000, pyarrow.map_("string", "string"))),
        (1, [[0] * MILLION]),  # a list that is counted, not stored
    ],
    ids=["nested", "map", "list"],
)
def test_lists_in_a_table_are_not_unpacked(rows: int, note: Any, tmp_path: Path) -> None:
    blocks = list(parquet_file.iter_blocks(table(tmp_path / "m.parquet", rows, note=note), 64))
    assert sum(map(len, blocks)) == rows
    assert all("note" not in row for block in blocks for row in block)


def test_long_texts_are_read_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No two of these rows are in memory at a time, and all are read."""
    monkeypatch.setattr(parquet_file, "LARGE_TEXT", 1000)
    source = table(tmp_path / "m.parquet", rows=100, text=[f"{number:0600}" for number in range(100)])
    blocks = list(parquet_file.iter_blocks(source, 64))
    assert [len(block) for block in blocks] == [1] * 100
    assert [row["text"] for block in blocks for row in block] == [f"{number:0600}" for number in range(100)]


def test_recordings_that_a_table_repeats_do_not_fill_the_disk(tmp_path: Path) -> None:
    audio = [{"bytes": bytes(MILLION), "path": "a.wav"}] * 20
    pyarrow.parquet.write_table(pyarrow.table({"audio": audio, "text": ["x"] * 20}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="unpacks to"):
        list(parquet.read(tmp_path / "t.parquet", tmp_path / "audio"))
    assert len(list((tmp_path / "audio").iterdir())) < 20


def test_a_compressed_arrow_file_is_not_unpacked(tmp_path: Path) -> None:
    values = ["a.wav", 1.0, "a" * 10 * MILLION, None, None, None, None, 1]
    batch = pyarrow.RecordBatch.from_pylist([dict(zip(schema().names, values, strict=True))], schema=schema())
    for codec in ("zstd", "lz4"):
        options = pyarrow.ipc.IpcWriteOptions(compression=codec)
        with pyarrow.ipc.new_file(str(tmp_path / "m.arrow"), schema(), options=options) as writer:
            writer.write_batch(batch)
        before = pyarrow.total_allocated_bytes()
        with pytest.raises(InputError, match=r"m\.arrow: a compressed table; compile the manifest again"):
            read_manifest(tmp_path / "m.arrow")
        assert pyarrow.total_allocated_bytes() - before < MILLION
