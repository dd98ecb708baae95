"""The long-form recipe: joins are where it says, and alignment finds them."""

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import soundfile
from helpers.readings import read_digits
from helpers.scripts import run_script

from ds2.data.manifest import write_manifest
from ds2.data.utterance import Utterance
from ds2.recognition.recognizer import Recognizer

RECIPE = Path(__file__).parents[2] / "recipes" / "longform"


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """Eight utterances of two speakers joined, and a reading."""
    utterances = []
    for number in range(8):
        path = tmp_path / "source" / f"{number}.wav"
        text = read_digits(path, number, lines=1, length=4).text.strip()
        utterances.append(Utterance(path, soundfile.info(path).duration, text, speaker="ab"[number % 2]))
    write_manifest(tmp_path / "source" / "test.jsonl", utterances)
    read_digits(tmp_path / "readings" / "poem.wav", 9)
    (tmp_path / "readings" / "poem.txt").write_text("one two\n")
    options = ["--readings", tmp_path / "readings", "--manifest", tmp_path / "source" / "test.jsonl"]
    run_script(RECIPE / "prepare.py", *options, "--output", tmp_path / "data")
    return tmp_path / "data"


def test_joined_recordings_hold_their_utterances_one_speaker_each(prepared: Path) -> None:
    assert (prepared / "readings" / "poem.wav").exists()
    rows = [json.loads(line) for line in (prepared / "joins.jsonl").read_text().splitlines()]
    assert [row["name"] for row in rows] == ["000_a.flac"] * 4 + ["001_b.flac"] * 4
    for name in ("000_a", "001_b"):
        own = [row for row in rows if row["name"] == f"{name}.flac"]
        text = (prepared / "joined" / f"{name}.txt").read_text()
        assert text.splitlines() == [row["text"] for row in own]
        assert soundfile.info(prepared / "joined" / f"{name}.flac").duration == pytest.approx(own[-1]["end"], abs=1e-3)
        pauses = [after["start"] - before["end"] for before, after in itertools.pairwise(own)]
        assert all(0.29 < pause < 1.51 for pause in pauses)


def test_the_joins_are_found_by_alignment(prepared: Path, recipe_script: Callable[[str], ModuleType]) -> None:
    join_errors: Callable[..., list[float]] = recipe_script("longform/measure").join_errors
    rows = [json.loads(line) for line in (prepared / "joins.jsonl").read_text().splitlines()][:4]
    errors = join_errors(Recognizer.load("digits", "cpu"), prepared / "joined" / rows[0]["name"], rows)
    assert len(errors) == 4
    assert max(errors) < 0.1


def test_joins_are_measured_without_naming_a_model(
    prepared: Path,
    recipe_script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["measure.py", str(prepared)])
    recipe_script("longform/measure").main()
    [row] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| all | 0.6 | ")]
    _, _, joins, *_ = row.split(" | ")
    assert 4 <= int(joins) <= 8  # of those beside words that the default model hears right


def test_another_manifest_is_joined_anew(prepared: Path) -> None:
    """What was joined before is not taken for it, whatever the two are called."""
    before = (prepared / "joins.jsonl").read_text()
    source = prepared.parent / "source" / "test.jsonl"
    source.write_text("".join(source.read_text().splitlines(keepends=True)[4:]))
    run_script(RECIPE / "prepare.py", "--manifest", source, "--output", prepared)
    rows = [json.loads(line) for line in (prepared / "joins.jsonl").read_text().splitlines()]
    assert len(rows) == len(before.splitlines()) / 2
    length = soundfile.info(prepared / "joined" / "000_a.flac").duration
    assert length == pytest.approx(max(row["end"] for row in rows if row["name"] == "000_a.flac"), abs=1e-3)
