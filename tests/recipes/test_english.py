"""The texts of the English language model: sentences out of three formats."""

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def texts(recipe_script: Callable[[str], ModuleType]) -> ModuleType:
    return recipe_script("english/texts")


def test_sentences_are_cut_normalised_and_chosen(texts: ModuleType) -> None:
    text = (
        'Mr. Bennet _came_ home. [Illustration] "Is it so?"\nIt was 1813; no. They would\nnot say\n\nWhy? Ça va bien là'
    )
    assert list(texts.sentences(text)) == ["mister bennet came home", "is it so", "they would not say"]


def r_object(*lines: str) -> bytes:
    """As R keeps a character vector in a package's data."""
    strings = (b"\x00\x04\x00\x09" + len(line).to_bytes(4, "big") + line.encode("ascii") for line in lines)
    values = b"X\n\x00\x00\x00\x02" + b"".join(strings)
    return len(values).to_bytes(4, "big") + zlib.compress(values)


def test_novels_are_read_from_all_objects(texts: ModuleType, tmp_path: Path) -> None:
    data = tmp_path / "usr/lib/R/site-library/janeaustenr/data"
    data.mkdir(parents=True)
    (data / "Rdata.rdb").write_bytes(r_object("It is a truth", "", "universally") + r_object("acknowledged"))
    assert texts.novels(tmp_path) == "It is a truth\n\nuniversally\nacknowledged"


def test_examples_are_what_is_quoted(texts: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "usr/share/wordnet"
    folder.mkdir(parents=True)
    (folder / "data.verb").write_text('0 29 v 01 breathe 0 | draw air; "I can breathe"; "she breathed hard"\n')
    assert texts.examples(tmp_path) == "I can breathe\n\nshe breathed hard"


def test_fortunes_come_without_who_said_them(texts: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "usr/share/games/fortunes"
    folder.mkdir(parents=True)
    (folder / "wisdom").write_text("Know thyself.\n\t\t-- Thales\n%\nNothing in excess.\n")
    (folder / "wisdom.dat").write_bytes(b"\x00\xff")
    (folder / "wisdom.u8").symlink_to("wisdom")
    assert list(texts.sentences(texts.fortunes(tmp_path))) == ["nothing in excess"]
    assert "Thales" not in texts.fortunes(tmp_path)


def test_sentences_end_where_lines_do(tmp_path: Path) -> None:
    """Not at U+2028 or a form feed, which JSON and texts may hold; those of a manifest count three times."""
    manifest, text = tmp_path / "train.jsonl", tmp_path / "texts.txt"
    manifest.write_text('{"audio_filepath": "a.wav", "duration": 1.0, "text": "one\u2028two"}\n', encoding="utf-8")
    text.write_text("three\ffour\n", encoding="utf-8")
    script = Path(__file__).parents[2] / "recipes" / "english" / "sentences.py"
    result = subprocess.run([sys.executable, script, manifest, text], check=True, capture_output=True, encoding="utf-8")
    assert result.stdout.splitlines() == ["one two"] * 3 + ["three four"]
