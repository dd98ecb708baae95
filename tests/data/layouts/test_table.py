"""Tables of one's own: spans of recordings, and rows that cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from ds2.cli.main import main
from ds2.data.convert import convert
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance


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
    assert main(["data", "convert", str(folder / "t.csv"), "-o", str(folder / "m.jsonl")]) == 1


def test_a_span_beyond_its_recording_is_left_out_or_cut_where_little_is_missing(folder: Path) -> None:
    """Within 0.1 s, which ds2 data validate allows: times are often rounded."""
    utterances, skipped = converted(
        folder, "path,text,offset,duration", "a.wav,one,0.25,99", "a.wav,two,0.5,0.58", "a.wav,three,0.5,0.25"
    )
    assert [(each.text, each.duration) for each in utterances] == [("two", 0.5), ("three", 0.25)]
    assert skipped == [f"2: ends at 99.25 s, but {folder / 'a.wav'} at 1.00 s"]
