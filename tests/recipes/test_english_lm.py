"""The texts of the English language model by source: what is normalised, held out, left out."""

import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from ds2.utils.errors import InputError

READ = "the king of the far north had three sons and one golden crown"
EVERYDAY = {
    "tatoeba": ["Go now!", "Tom's here."],
    "common_voice_sentences": ["Be careful, said the stranger.", "Go now."],
    "sgd": ["Is the hotel booked?"],
    "snips": ["Play 2 songs."],
}


@pytest.fixture(scope="module")
def lm_texts(recipe_script: Callable[[str], ModuleType]) -> ModuleType:
    return recipe_script("english/lm_texts")


def write_blocks(path: Path, blocks: dict[str, list[str]], header: str = "") -> None:
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.writelines(line + "\n" for lines in blocks.values() for line in lines)
    rows, first = [header] if header else [], 1
    for name, lines in blocks.items():
        rows.append(f"{name}\t{first}\t{len(lines)}\t{sum(len(line.split()) for line in lines)}")
        first += len(lines)
    path.with_name(path.name.removesuffix(".txt.xz") + ".tsv").write_text("\n".join(rows) + "\n")


def write_manifest(path: Path, *texts: str) -> Path:
    rows = [{"audio_filepath": f"{n}.wav", "duration": 1.0, "text": text} for n, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_each_source_is_a_text_without_dev(
    lm_texts: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A book that dev reads aloud goes whole, of another just the line that dev shares; nothing share-alike stays."""
    mostly = [f"{number} nights. {READ.title()} of {number}!" for number in range(20)]
    books = {"read aloud": mostly, "another": ["Mr. Smith came.", f"He said: {READ}, and left.", "It was 1813."]}
    write_blocks(tmp_path / "books.txt.xz", books)
    write_blocks(tmp_path / "everyday.txt.xz", EVERYDAY, "source\tfirst_line\tlines\twords")
    train = write_manifest(tmp_path / "train.jsonl", "HELLO WORLD", READ, "hello world")
    dev = write_manifest(tmp_path / "dev-a.jsonl", READ, "be careful said the stranger")
    output = tmp_path / "texts"
    options = {"books": tmp_path / "books.txt.xz", "everyday": tmp_path / "everyday.txt.xz", "train": train, "dev": dev}
    arguments = [part for name, path in options.items() for part in (f"--{name}", str(path))]
    monkeypatch.setattr(sys, "argv", ["lm_texts.py", *arguments, "--output", str(output)])
    lm_texts.main()
    assert {path.name: path.read_text().splitlines() for path in output.glob("*.txt")} == {
        "books.txt": ["mister smith came", "it was eighteen thirteen"],
        "commands.txt": ["play two songs"],
        "prompts.txt": [],
        "tatoeba.txt": ["go now", "tom's here"],
        "transcripts.txt": ["hello world"],
    }
    assert (output / "dev" / "all.txt").read_text() == (output / "dev" / "dev-a.txt").read_text()
    assert len((output / "dev" / "all.txt").read_text().splitlines()) == 2


def test_a_collection_adds_the_books_that_are_neither_there_nor_left_out(lm_texts: ModuleType, tmp_path: Path) -> None:
    for name in ("A___Known", "A___Left [1]", "A___New", "B___One", "B___Two"):
        (tmp_path / f"{name}.txt").write_text(f"This is {name[4:]}.\n")
    found = lm_texts.read_collection(tmp_path, {"A___Known"}, ["A___Left [[]1].txt", "B___*"])
    assert list(found) == [("A___New", ["this is new"])]


def test_a_long_sentence_of_two_books_counts_once_and_a_short_one_twice(lm_texts: ModuleType) -> None:
    book = ["yes", "one two three four five six seven eight nine"]
    assert list(lm_texts.books([("first", book), ("second", book)], lm_texts.HeldOut([]))) == [*book, "yes"]


def test_a_plain_text_is_divided_into_sentences(lm_texts: ModuleType) -> None:
    """Headings, footnotes and rows of figures go; a title and an initial end no sentence."""
    text = """CHAPTER I

"Is Mr. Smith _here_?" asked J. Brown, and
sat down.[1] "No!" said she.

1, 2, 3, and 4.
"""
    assert [lm_texts.spoken(sentence) for sentence in lm_texts.split(text)] == [
        "is mister smith here asked j brown and sat down",
        "no said she",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Dürer's œuvre, No. 3", "doctor durer's oeuvre number three"),
        ("Mrs Dalloway", "missus dalloway"),
        ("the first Mr and only", "the first mister and only"),
        ("Привет", ""),
        ("...", ""),
    ],
)
def test_a_sentence_is_as_transcripts_are(lm_texts: ModuleType, text: str, expected: str) -> None:
    assert lm_texts.spoken(text) == expected


def test_a_table_of_another_text_is_refused(lm_texts: ModuleType, tmp_path: Path) -> None:
    write_blocks(tmp_path / "books.txt.xz", {"a book": ["one", "two"]})
    (tmp_path / "books.tsv").write_text("a book\t1\t3\t3\n")
    with pytest.raises(InputError, match="ends inside a book"):
        list(lm_texts.read_blocks(tmp_path / "books.txt.xz"))
