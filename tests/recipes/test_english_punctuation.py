"""The recipe of the punctuation: what it learns from, and that it learns."""

import lzma
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.scripts import run_script

from ds2.bundle import Bundle
from ds2.recognition.punctuation import Punctuator

SCRIPT = Path(__file__).parents[2] / "recipes" / "english" / "punctuation.py"
LINES = ["Well, I saw John.", "Where is he now?", "He went home; Mr. Brown -- his friend -- knew it!", "It was 1850."]


@pytest.mark.long
def test_it_trains_and_is_added_to_a_bundle(tmp_path: Path, tiny_bundle: Path) -> None:
    books = [("Ann A___One", 300), ("Bob B___Two", 300), ("Cy C___Three", 60)]
    rows, first = ["book\tfirst_line\tlines\twords"], 1
    for name, lines in books:
        rows.append(f"{name}\t{first}\t{lines}\t0")
        first += lines
    for name, table, count in (("books", rows, 660), ("everyday", ["source\tf\tl\tw", "tatoeba\t1\t300\t0"], 300)):
        (tmp_path / f"{name}.tsv").write_text("\n".join(table) + "\n")
        with lzma.open(tmp_path / f"{name}.txt.xz", "wt") as file:
            file.writelines(f"{LINES[number % 4]}\n" for number in range(count))
    output = tmp_path / "punctuation.safetensors"
    texts = ["--books", tmp_path / "books.txt.xz", "--everyday", tmp_path / "everyday.txt.xz", "--updates", "40"]
    printed = run_script(SCRIPT, "train", output, *texts)
    assert "comma 1.000" in printed
    run_script(SCRIPT, "add", output, tiny_bundle)
    punctuator = Punctuator.from_bundle(Bundle.load(tiny_bundle))
    assert punctuator is not None
    said = "well i saw john where is he now he went home mister brown his friend knew it"
    shown = "Well, I saw John. Where is he now? He went home, Mister Brown, his friend, knew it."
    assert " ".join(punctuator(said.split())) == shown


def test_the_marks_of_words() -> None:
    """A line ends a sentence, if no comma or colon follows it; initials, titles and what goes on in lower case do not;
    semicolons and dashes are commas."""
    lines = [
        '"Well -- Mr. J. Smith?" said he; "I know!', "It is well-known: the end", "In 1850.",
        '"Oh! you," cried she: -- ', '"Well! A day&mdash;', "Here--",
    ]  # fmt: skip
    command = (
        f"from punctuation_texts import *; text = read({lines}); print(*zip(text.words, text.marks, text.capitals))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", command], cwd=SCRIPT.parent, check=True, capture_output=True, text=True
    )
    found = " ".join("".join((word.title() if capital else word, ["", ",", ".", "?"][mark]))
                     for word, mark, capital in map(eval, re.findall(r"\(.*?\)", printed.stdout)))  # fmt: skip
    shown = "Well, Mister J Smith? said he, I know. It is well known, the end."
    assert found == f"{shown} Oh, you, cried she, Well. A day. Here."
