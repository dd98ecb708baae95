"""Transcripts by others, from files."""

import json
from pathlib import Path

import pytest

from ds2.data.utterance import Utterance
from ds2.recognition.compared_transcripts import open_other, read_other_texts, texts_of
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
    other = open_other(str(tmp_path / "a.txt"), UTTERANCES, "en", "cpu")
    assert texts_of(other, UTTERANCES[::2]) == ["one", "three"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "x/ann/1.wav:0.50-2.00\tone\n", "no transcript of data/bob/1.wav:0.50-2.00; 2 of 3 utterances lack"),
        ("a.txt", "one\n", "a.txt:1: no tab .*ds2 transcribe prints such lines"),
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


def test_a_folder_is_refused_with_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; name one file, such as the manifest"):
        open_other(str(tmp_path), UTTERANCES, None, "cpu")
