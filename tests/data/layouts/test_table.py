"""Tables of one's own: spans of recordings, and rows that cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from ds2.cli.main import main
from ds2.data.convert import convert
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError


@pytest.fixture
def folder(tmp_path: Path, spoken_digits: Callable[[int], Path]) -> Path:
    """Holds a.wav, one second of speech."""
    [digit] = read_manifest(spoken_digits(1))
    samples, rate = soundfile.read(digit.audio_path)
    soundfile.write(tmp_path / "a.wav", [*samples, *samples, *samples, *samples, *samples][:rate], rate)
    return tmp_path


def converted(folder: Path, *lines: str) -> tuple[list[Utterance], list[str]]:
    """The utterances of the table t.csv, and what follows the number of each line that was left out."""
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    _, skipped = convert(folder / "t.csv", folder / "m.jsonl", "", "nemo", None)
    return list(read_manifest(folder / "m.jsonl")), [line.removeprefix(f"{folder / 't.csv'}:") for line in skipped]


def test_a_bad_cell_leaves_out_its_row_alone(folder: Path) -> None:
    utterances, skipped = converted(
        folder, "path,text,offset,duration", "a.wav,one,0.1,0.2", "a.wav,two,-1,0.2", "a.wav,three,0.5,x"
    )
    assert [each.text for each in utterances] == ["one"]
    assert skipped == [
        "3: offset must be 0 or more seconds, got '-1'",
        "4: duration must be 0 or more seconds, got 'x'",
    ]


def test_a_decimal_comma_is_named(folder: Path) -> None:
    _, skipped = converted(folder, "path;text;offset;duration", "a.wav;one;0.1;0.2", "a.wav;two;0.1;0,5")
    assert skipped == ["3: duration must be 0 or more seconds, got '0,5'; write decimals with a point"]
    assert main(["data", "convert", str(folder / "t.csv"), "-o", str(folder / "m.jsonl")]) == 1


def test_a_span_beyond_its_recording_is_left_out_or_cut_where_little_is_missing(folder: Path) -> None:
    """Within 0.1 s, which ds2 data validate allows: times are often rounded."""
    utterances, skipped = converted(
        folder, "path,text,offset,duration", "a.wav,one,0.25,99", "a.wav,two,0.5,0.58", "a.wav,three,0.5,0.25"
    )
    assert [(each.text, each.duration) for each in utterances] == [("two", 0.5), ("three", 0.25)]
    assert skipped == [f"2: ends at 99.25 s, but {folder / 'a.wav'} at 1.00 s"]


@pytest.mark.parametrize("names", ["start,end", "start_time,end_time", "begin,end", "Start,END", "offset,end"])
def test_starts_and_ends_in_a_table_name_parts(folder: Path, names: str) -> None:
    """Two rows of one recording, each with its own text; without a start the recording is taken whole."""
    lines = ["a.wav,one,0.1,0.3", "a.wav,two,0.3,0.75", "a.wav,three,0.8,", "a.wav,all,,"]
    utterances, skipped = converted(folder, f"path,text,{names}", *lines)
    assert [(each.text, each.offset, each.duration) for each in utterances] == [
        ("one", 0.1, 0.2),
        ("two", 0.3, 0.45),
        ("three", 0.8, 0.2),
        ("all", None, 1.0),
    ]
    assert skipped == []
    assert not any(each.extra for each in utterances)


def test_spans_by_the_clock(folder: Path) -> None:
    rows = ["a.wav,one,0:00.1,0:00:00.3", "a.wav,two,00:00.5,0.75", "a.wav,three,0:5,1:00:00:00", "a.wav,four,-1:00,2"]
    utterances, skipped = converted(folder, "path,text,start,end", *rows)
    assert [(each.text, each.offset, each.duration) for each in utterances] == [("one", 0.1, 0.2), ("two", 0.5, 0.25)]
    assert skipped == [
        "4: end must be 0 or more seconds, got '1:00:00:00'",
        "5: offset must be 0 or more seconds, got '-1:00'",
    ]


def test_an_end_decides_where_a_duration_stands_beside_it(folder: Path) -> None:
    """Which may be that of the recording."""
    [utterance], _ = converted(folder, "path,text,start,end,duration", "a.wav,one,0.1,0.3,1.0")
    assert utterance.duration == 0.2


def test_a_row_whose_end_and_start_are_no_span_is_left_out(folder: Path) -> None:
    rows = ["a.wav,one,0.1,0.3", "a.wav,two,,0.5", "a.wav,three,0.5,0.5", "a.wav,four,0.5,x"]
    utterances, skipped = converted(folder, "path,text,start,end", *rows)
    assert [each.text for each in utterances] == ["one"]
    assert skipped == [
        "3: ends at 0.5 s, but has no start",
        "4: ends at 0.5 s, but starts at 0.5 s",
        "5: end must be 0 or more seconds, got 'x'",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("end", "has ends, but no starts; name a column start, or rename end"),
        ("start_ms,end_ms", "start_ms, end_ms: expected spans as start and end, in seconds; rename"),
        ("startFrame", "startFrame: expected spans"),
        ("start,stop", "stop: expected spans"),
        ("segment_start,segment_end", "segment_start, segment_end: expected spans"),
        ("start,dur", "dur: expected spans"),
        ("start,offset", "has 2 columns of the name offset, start"),
    ],
)
def test_columns_about_spans_that_are_not_understood_are_refused(folder: Path, names: str, message: str) -> None:
    (folder / "t.csv").write_text(f"path,text,{names}\na.wav,one,{','.join('0' for _ in names.split(','))}\n")
    with pytest.raises(InputError, match=f"t.csv:1: {message}"):
        convert(folder / "t.csv", folder / "m.jsonl", "", "nemo", None)


def test_columns_of_other_meaning_survive(folder: Path) -> None:
    [utterance], _ = converted(folder, "path,text,end_punctuation,start_date,length", "a.wav,one,yes,2020,3")
    assert utterance.extra == {"end_punctuation": "yes", "start_date": "2020", "length": "3"}


def test_a_writer_of_tables_with_tabs_may_quote_values(folder: Path) -> None:
    """As Python's does; where quotes are the text's own they stay."""
    rows = [
        'a.wav\t"He said, ""No!"" twice"\t0\t0.1',
        'a.wav\t"Yes", he said, "now"\t0.1\t0.2',
        'a.wav\t"one"\t0.2\t0.3',
    ]
    utterances, skipped = converted(folder, "path\ttext\tstart\tend", *rows)
    assert [each.text for each in utterances] == ['He said, "No!" twice', '"Yes", he said, "now"', '"one"']
    assert not skipped
    utterances, _ = converted(folder, '"path"\t"text"', '"a.wav"\t"one ""two"""')
    assert [each.text for each in utterances] == ['one "two"']


def test_a_quote_that_is_not_closed_swallows_no_row_in_silence(folder: Path) -> None:
    """To the end of the table, to a quote within a later row, and to one at the end of a row."""
    for rows in (['a.wav,"one', "b.wav,two"], ['a.wav,"one', 'b.wav,"two"'], ['a.wav,"one" two']):
        utterances, [skipped] = converted(folder, "path,text", "a.wav,zero", *rows)
        assert [each.text for each in utterances] == ["zero"]
        assert skipped.startswith("3: not a row (")
        assert skipped.endswith("; is a quote not closed?")
    utterances, _ = converted(folder, "path,text", 'a.wav,"one" two', "a.wav,three")
    assert [each.text for each in utterances] == ["three"]
    utterances, skipped = converted(folder, "path,text", 'a.wav,"zero', 'one"', 'b.wav,"two', 'c.wav,three"')
    assert [each.text for each in utterances] == ["zero one"]  # lines of a text
    assert skipped == ["5: a value holds a line with the name of another recording; close its quote"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metadata.csv", "file_name,transcription\na.wav,one\n"),
        ("metadata.jsonl", '{"file_name": "a.wav", "transcription": "one", "audio": {"bytes": null}}\n'),
    ],
)
def test_a_folder_of_audio_for_hugging_face(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    for source in (folder, folder / name):
        convert(source, folder / "m.jsonl", "", "nemo", None)
        [utterance] = read_manifest(folder / "m.jsonl")
        assert (utterance.audio_path, utterance.text) == (folder / "a.wav", "one")
