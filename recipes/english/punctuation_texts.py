"""Punctuated text as what the tagger learns: words, the mark after each, and whether it has a capital.

A line is a sentence, so its last word ends one, unless a comma or a colon follows it: he said: "Come." Exclamation
marks count as full stops, before a word in lower case as commas: "Oh! said he." Semicolons, colons and dashes within a
sentence count as commas; the point of an abbreviation or an initial within a line is no mark. Quotation marks are left
out.
"""

import functools
import html
import lzma
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ds2.text import normalize

NONE, COMMA, STOP, QUESTION = range(4)  # in the order of ds2.recognition.punctuation.MARKS
HELD_OUT = 8  # every eighth author is
TITLES = {"mr.": "mister", "mrs.": "missus", "ms.": "miss", "dr.": "doctor", "st.": "saint"}
DASHES = re.compile(r"\s*(?:--+|—|–)\s*")
DASH, DIGIT = re.compile("--|—|–"), re.compile(r"\d")
POINT = re.compile(r"\w\.$")  # of an abbreviation, unless it ends the line
GOES_ON = re.compile(r"\w[^\w\s]*[,;:][^\w.!?]*$")  # the end of a line whose sentence does


@dataclass(frozen=True)
class Text:
    """N words, the mark after each, and whether it has a capital."""

    words: list[str]
    marks: array
    capitals: array


def blocks(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The name and the lines of each book or source."""
    table = path.with_name(path.name.split(".")[0] + ".tsv").read_text().splitlines()
    rows = [line.split("\t") for line in table if line.split("\t")[1].isdigit()]
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for name, _, lines, *_ in rows:
            yield name, [next(file).strip() for _ in range(int(lines))]


def divided(books: Iterable[tuple[str, list[str]]]) -> tuple[list[str], list[str]]:
    """The lines of the books to train on, and of those of authors that are held out."""
    every = list(books)
    authors = sorted({name.partition("___")[0] for name, _ in every})
    test = set(authors[::HELD_OUT])
    kept = [line for name, lines in every if name.partition("___")[0] not in test for line in lines]
    return kept, [line for name, lines in every if name.partition("___")[0] in test for line in lines]


def read(lines: Iterable[str]) -> Text:
    """The words of the lines, one after another; lines with figures are left out."""
    text = Text([], array("b"), array("b"))
    for line in map(html.unescape, lines):
        if DIGIT.search(line):
            continue
        first = len(text.words)
        for raw in (DASHES.sub(", ", line) if DASH.search(line) else line).split():
            words, marks, capitals = parsed(raw)
            if words and len(text.words) > first and text.marks[-1] == STOP and not capitals[0]:
                text.marks[-1] = COMMA
            text.words.extend(words)
            text.marks.extend(marks)
            text.capitals.extend(capitals)
        if len(text.words) > first and text.marks[-1] != QUESTION:
            text.marks[-1] = COMMA if GOES_ON.search(line) else STOP
    return text


@functools.cache
def parsed(raw: str) -> tuple[list[str], array, array]:
    """ "Well-known;" -> ["well", "known"], the numbers of their marks, 1 for a capital."""
    bare = raw.strip("\"“”‘’'()[]_*")
    words, mark = [TITLES[bare.lower()]] if bare.lower() in TITLES else normalize(bare, "en").split(), NONE
    ending = re.search(r"[^\w]*$", raw)
    marks = ending[0] if ending else ""
    if "?" in marks:
        mark = QUESTION
    elif re.search("[.!]", marks) and not POINT.search(raw):
        mark = STOP
    elif re.search("[,;:]", marks):
        mark = COMMA
    letters = [character for character in bare if character.isalpha()]
    nothing, capital = [0] * (len(words) - 1), int(bool(letters) and letters[0].isupper())
    last = [[mark], [capital]] if words else [[], []]
    return words, array("b", nothing + last[0]), array("b", last[1] + nothing)
