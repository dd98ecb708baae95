"""Compiled manifests: the same utterances as the lines, the same errors, mapped and not read."""

import json
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import assert_refused

from ds2.cli.main import main
from ds2.data.columnar import Joined, Selection, durations, folders, values
from ds2.data.compiled import CompiledManifest, compile_manifest, schema
from ds2.data.layouts import parquet
from ds2.data.manifest import check_characters, read_manifest, summary, write_manifest
from ds2.data.shards import shards_of
from ds2.text import Tokenizer
from ds2.utils.errors import InputError

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra data")

ROWS: list[dict[str, Any]] = [
    {"audio_filepath": "a.wav", "duration": 1, "text": "two five"},
    {"audio_filepath": "deep/./b.wav", "duration": 2.5, "text": "", "offset": 3, "speaker": "ann", "lang": "en"},
    {"audio_filepath": "/abs/c.wav", "duration": 0.5, "text": "ünï \u2028", "extra": {"x": [1, None]}, "id": "7"},
    {"audio_filepath": "deep/b.wav", "duration": 2.5, "text": "later", "offset": 9.5},
]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "m.jsonl"
    path.write_text("\ufeff" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\r\n")
    return path


def compiled(manifest: Path, folder: Path | None = None) -> CompiledManifest:
    target = (folder or manifest.parent) / "m.arrow"
    assert compile_manifest(manifest, target) == len(read_manifest(manifest))
    return CompiledManifest(target)


def test_it_holds_the_utterances_of_the_lines(manifest: Path) -> None:
    expected, found = list(read_manifest(manifest)), compiled(manifest)
    assert list(found) == expected == [found[number] for number in range(4)]
    assert [each.place.rpartition(":")[2] for each in found] == ["1", "3", "5", "7"]
    assert found[-1] == expected[-1]
    assert list(found[1:3]) == expected[1:3]
    assert list(found[::-2]) == expected[::-2]
    assert read_manifest(found.path)[2].extra == {"extra": {"x": [1, None]}, "id": "7"}
    with pytest.raises(IndexError):
        found[4]


def test_in_another_folder_it_names_the_same_audio(manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert list(compiled(manifest, tmp_path / "other")) == list(read_manifest(manifest))


def test_it_is_moved_with_its_audio(manifest: Path, tmp_path: Path) -> None:
    path = compiled(manifest).path
    (tmp_path / "moved").mkdir()
    path.rename(tmp_path / "moved" / "m.arrow")
    assert CompiledManifest(tmp_path / "moved" / "m.arrow")[0].audio_path == tmp_path / "moved" / "a.wav"


def test_columns_are_those_of_the_lines(manifest: Path, tmp_path: Path) -> None:
    lines, found = read_manifest(manifest), compiled(manifest)
    for one, other in ((lines, found), (lines[1:], found[1:]), ([*lines, *lines[2:]], Joined([found, found[2:]]))):
        assert durations(one).tolist() == durations(other).tolist()
        assert [list(values(one, name)) for name in ("text", "speaker")] == [
            list(values(other, name)) for name in ("text", "speaker")
        ]
        assert [folders(one)[1][n] for n in folders(one)[0]] == [folders(other)[1][n] for n in folders(other)[0]]
        assert shards_of(one)[0].tolist() == shards_of(other)[0].tolist()
        assert list(one) == list(other)
        assert summary(one) == summary(other)


def test_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few lines: every utterance is found at its place, whichever block holds it."""
    monkeypatch.setattr("ds2.data.manifest_lines.BLOCK", 300)
    path = tmp_path / "many.jsonl"
    rows = [{"audio_filepath": f"{n}.wav", "duration": 1 + n / 100, "text": "x" * (n % 7)} for n in range(100)]
    rows[50]["speaker"] = "b"
    rows[60]["other"] = "key"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = compiled(path)
    assert len(found.batches) > 10
    assert [found[number] for number in range(100)] == list(read_manifest(path)) == list(found)
    picked = Selection(found, np.array([99, 0, 60]))
    assert [each.audio_path.name for each in picked] == ["99.wav", "0.wav", "60.wav"]
    assert picked[2].extra == {"other": "key"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ('{"audio_filepath": "a.wav", "duration": 1, "text": "again"}', "duplicate of"),
        ('{"audio_filepath": "x.wav", "duration": "1", "text": ""}', "duration must be a number"),
        ('{"audio_filepath": "x.wav", "duration": true, "text": ""}', "duration must be a number"),
        ('{"audio_filepath": "x.wav", "duration": 0, "text": ""}', "duration must be positive"),
        ('{"audio_filepath": "x.wav", "duration": NaN, "text": ""}', "duration must be positive"),
        ('{"audio_filepath": "x.wav", "duration": 1, "text": "", "offset": -1}', "offset must be 0 or more"),
        ('{"audio_filepath": "x.wav", "duration": 1}', "lacks text"),
        ("[1]", "expected an object"),
    ],
)
def test_errors_are_those_of_the_lines(manifest: Path, tmp_path: Path, line: str, message: str) -> None:
    with manifest.open("a") as file:
        file.write(f"\n{line}\n")
    errors = []
    for read in (read_manifest, lambda path: compile_manifest(path, tmp_path / "m.arrow")):
        with pytest.raises(InputError) as error:
            read(manifest)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert errors[0].startswith(f"{manifest}:9: ")
    assert message in errors[0]
    assert not (tmp_path / "m.arrow").exists()


def test_the_first_of_several_duplicates_is_named(tmp_path: Path) -> None:
    rows = [{"audio_filepath": f"{name}.wav", "duration": 1, "text": ""} for name in "abcbaca"]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=r"m\.jsonl:4: duplicate of .*m\.jsonl:2,"):
        compile_manifest(tmp_path / "m.jsonl", tmp_path / "m.arrow")


def test_a_table_in_parquet_is_compiled(tmp_path: Path) -> None:
    import pyarrow.parquet

    keys = {key: None for row in ROWS for key in row}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([keys | row for row in ROWS]), tmp_path / "m.parquet")
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    compile_manifest(tmp_path / "m.parquet", tmp_path / "m.arrow")
    found, expected = CompiledManifest(tmp_path / "m.arrow"), read_manifest(tmp_path / "m.jsonl")
    assert [each.span for each in found] == [each.span for each in expected]
    (tmp_path / "bad.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match="not a readable parquet table"):
        compile_manifest(tmp_path / "bad.parquet", tmp_path / "m.arrow")


def test_what_was_read_can_be_written_compiled(manifest: Path, tmp_path: Path) -> None:
    write_manifest(tmp_path / "copy.arrow", read_manifest(manifest))
    assert list(read_manifest(tmp_path / "copy.arrow")) == list(read_manifest(manifest))


def test_another_process_maps_the_file(manifest: Path) -> None:
    found = compiled(manifest)
    assert len(pickle.dumps(found)) < 1000
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(len, (found,)) == 4
    assert list(pickle.loads(pickle.dumps(found))) == list(found)


def test_damaged_files_are_refused(manifest: Path, tmp_path: Path) -> None:
    path = compiled(manifest).path
    data = path.read_bytes()
    unread = data[:8] + bytes(4) + data[12:]  # the stream of messages ends where it begins
    for number, damaged in enumerate((b"", b"ARROW1", data[:-20], data.replace(b"ds2", b"ds3"), unread)):
        (tmp_path / f"{number}.arrow").write_bytes(damaged)
        with pytest.raises(InputError, match="compile it again"):
            CompiledManifest(tmp_path / f"{number}.arrow")
    with pytest.raises(InputError, match=r"none\.arrow: cannot be read \(No such file"):
        read_manifest(tmp_path / "none.arrow")


def test_wrong_offsets_in_a_file_do_not_crash(tmp_path: Path) -> None:
    """The offsets of the texts, changed to lead far beyond the file."""
    row = {"audio_filepath": "a.wav", "duration": 1.0, "text": "x" * 1234}
    (tmp_path / "m.jsonl").write_text(json.dumps(row))
    path = compiled(tmp_path / "m.jsonl").path
    before, after = (np.array([0, end], np.int32).tobytes() for end in (1234, 1 << 30))
    start, _, end = path.read_bytes().rpartition(before)  # of the block; what stands before describes it
    path.write_bytes(start + after + end)
    with pytest.raises(InputError, match=r"m\.arrow: damaged .*; compile it again"):
        read_manifest(path)[0]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("audio", None),
        ("duration", None),
        ("duration", float("nan")),
        ("duration", -1.0),
        ("offset", float("inf")),
        ("lang", "x" * 1001),
        ("line", None),
        ("extra", "[" * 100_000),
        ("extra", "5"),
    ],
)
def test_values_that_no_manifest_may_have_are_refused(manifest: Path, column: str, value: Any) -> None:
    """In a file that Arrow finds valid."""
    path = compiled(manifest).path
    rows = pyarrow.ipc.open_file(path).read_all().to_pylist()
    rows[2][column] = value
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, schema()) as writer:
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema()))
    with pytest.raises(InputError, match=r"m\.arrow: damaged .*; compile it again"):
        list(CompiledManifest(path))
    if column == "duration":
        with pytest.raises(InputError, match="a duration that no manifest may have"):
            durations(CompiledManifest(path))


def test_a_column_of_bytes_is_refused_by_its_row(tmp_path: Path) -> None:
    import pyarrow.parquet

    row = {"audio_filepath": "a.wav", "duration": 1.0, "text": "one", "picture": b"x"}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "m.parquet")
    with pytest.raises(InputError, match=r"m\.parquet: row 1: has a column that a manifest cannot hold .*bytes"):
        compile_manifest(tmp_path / "m.parquet", tmp_path / "m.arrow")


@pytest.mark.parametrize("place", [4, 8])
def test_a_damaged_table_is_refused_in_one_line(tmp_path: Path, place: int) -> None:
    """In its first page: Arrow's own message has several lines, and comes when the rows are read."""
    import pyarrow.parquet

    path = tmp_path / "m.parquet"
    row = {"audio_filepath": "a.wav", "duration": 1.0, "text": "one", "audio": {"bytes": b"x", "path": "a.wav"}}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    data = path.read_bytes()
    path.write_bytes(data[:place] + b"\xff" * 4 + data[place + 4 :])
    for read in (lambda: compile_manifest(path, tmp_path / "m.arrow"), lambda: list(parquet.read(path, tmp_path))):
        with pytest.raises(InputError, match=r"m\.parquet: not a readable parquet table") as error:
            read()
        assert len(str(error.value).splitlines()) == 1


def test_characters_are_checked(manifest: Path) -> None:
    found = compiled(manifest)
    check_characters(found, Tokenizer.from_texts(values(found, "text")))
    with pytest.raises(InputError, match=r"m\.arrow:1: characters that the model's alphabet lacks"):
        check_characters(found, Tokenizer(["<blank>", "a"]))


def test_the_commands_take_it(
    spoken_digits: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = spoken_digits(6)
    target = lines.with_name("c.arrow")
    assert main(["data", "compile", str(lines), "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: 6 utterances\n"
    for command in (["info"], ["data", "stats"], ["data", "validate"]):
        code, expected = main([*command, str(lines)]), capsys.readouterr().out
        assert main([*command, str(target)]) == code
        assert capsys.readouterr().out == expected.replace(str(lines), str(target))
    assert main(["data", "sample", str(target), "--hours", "0.0003", "-o", str(tmp_path / "few.arrow")]) == 0
    assert 0 < len(read_manifest(tmp_path / "few.arrow")) < 6
    capsys.readouterr()
    for arguments, message in (
        ([str(lines), "-o", str(tmp_path / "c.jsonl")], "--output: "),
        ([str(tmp_path / "none.jsonl"), "-o", str(target)], "cannot read the manifest"),
    ):
        code = main(["data", "compile", *arguments])
        assert_refused((code, *capsys.readouterr()), message)
