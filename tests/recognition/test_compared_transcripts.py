"""Transcripts by others, from files."""

import json
from pathlib import Path

import pytest

from ds2.data.utterance import Utterance
from ds2.recognition.compared_transcripts import foreign_marks, open_other, read_other_texts, texts_of
from ds2.utils.errors import InputError

UTTERANCES = [
    Utterance(Path("data/ann/1.wav"), 1.5, "one", offset=0.5),
    Utterance(Path("data/bob/1.wav"), 1.5, "two", offset=0.5),
    Utterance(Path("data/bob/1.wav"), 1.0, "three", offset=2.0),
]


def texts(path: Path) -> list[str]:
    return list(read_other_texts(path, UTTERANCES).values())


def test_all_forms_hold_the_same_texts(tmp_path: Path) -> None:
    """Two folders have a file 1.wav, so the folder tells them apart; further up the paths may differ."""
    names = ["x/ann/1.wav", "x/bob/1.wav", "x/bob/1.wav"]
    lines = ["x/ann/1.wav:0.50-2.00\tOne", "x/bob/1.wav:2.00-3.00\tthree", "x/bob/1.wav:0.50-2.00\ttwo", ""]
    (tmp_path / "a.txt").write_text("\n".join([*lines, "x/bob/1.wav:0.50-2.00\tand a half"]))
    assert texts(tmp_path / "a.txt") == ["One", "two and a half", "three"]
    (tmp_path / "a.json").write_text(json.dumps(dict(line.split("\t") for line in lines[:3])))
    assert texts(tmp_path / "a.json") == ["One", "two", "three"]
    rows = [
        {"audio_filepath": name, "duration": each.duration, "offset": each.offset, "text": each.text}
        for name, each in zip(names, UTTERANCES, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[::-1]))
    assert texts(tmp_path / "a.jsonl") == ["one", "two", "three"]
    other = open_other(str(tmp_path / "a.txt"), UTTERANCES, "cpu")
    assert texts_of(other, UTTERANCES[::2]) == ["One", "three"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "x/ann/1.wav:0.50-2.00\tone\n", "no transcript of data/bob/1.wav:0.50-2.00; 2 of 3 utterances lack"),
        ("a.txt", "one\n", "a.txt:1: no tab .*ds2 transcribe prints such lines"),
        (
            "a.txt",
            "a.wav\t0.81\tone\na.wav\t0.19\tnine\n",
            "a.txt:1: alternatives, or separate channels",
        ),
        ("a.txt", "a.wav\t1: one\na.wav\t2: nine\n", "a.txt:1: alternatives, or separate channels"),
        ("a.json", '{"a.wav": 1}', "not a JSON object of names and texts"),
        ("a.json", "{", "not JSON"),
        ("b.txt", None, "cannot be read"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        texts(tmp_path / name)


def test_the_text_of_a_single_recording_needs_no_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\nthree\n")
    [only] = UTTERANCES[:1]
    assert read_other_texts(tmp_path / "a.txt", [only]) == {only.span: "one two three"}


def test_predictions_count_not_the_references_beside_them(tmp_path: Path) -> None:
    """NeMo writes its own text, pred_text, beside the reference."""
    rows = [
        {"audio_filepath": str(each.audio_path), "duration": 1.5, "offset": each.offset, "text": "", "pred_text": word}
        for each, word in zip(UTTERANCES, ("won", "two", "free"), strict=True)
    ]
    rows[2]["duration"] = 1.0
    (tmp_path / "nemo.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert texts(tmp_path / "nemo.jsonl") == ["won", "two", "free"]


def test_a_folder_of_transcripts(tmp_path: Path) -> None:
    folder = tmp_path / "out.txt"  # a folder, whatever its name says
    (folder / "bob").mkdir(parents=True)
    with pytest.raises(InputError, match="has no transcripts in the format json"):
        texts(folder)
    for number, each in enumerate(UTTERANCES):
        (folder / "bob" / f"{number}.json").write_text(
            json.dumps({"file": str(each.span), "text": str(number), "duration": 1, "segments": [], "words": []})
        )
    assert open_other(str(folder), UTTERANCES, "cpu") == dict(zip((e.span for e in UTTERANCES), "012", strict=True))
    for content in ("{}", "[]", '{"file": 1, "text": ""}'):
        (folder / "0.json").write_text(content)
        with pytest.raises(InputError, match=r"0\.json: not a"):
            texts(folder)


def test_marks_that_no_reference_has() -> None:
    assert foreign_marks(["It's one, two.", "é"], ["it's one"]) == ", ."
    assert foreign_marks(["a b"], ["c"]) == ""


def test_spans_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their names have hundredths of a second; a search for what tells them apart had no end."""
    (tmp_path / "a.txt").write_text("a.wav:1.00-3.00\tone\n")
    utterances = [
        Utterance(Path("a.wav"), 2.0, text, offset=offset) for text, offset in (("one", 1.001), ("two", 1.002))
    ]
    with pytest.raises(InputError, match=r"two utterances are called a\.wav:1\.00-3\.00"):
        read_other_texts(tmp_path / "a.txt", utterances)
