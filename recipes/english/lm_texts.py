"""The texts for the language model: one normalised text for each source, one sentence per line.

    python recipes/english/lm_texts.py --books books.txt.xz --everyday everyday.txt.xz \\
        --train MANIFEST... --dev MANIFEST... --output FOLDER

books.tsv (book, first line, lines, words) is next to books.txt.xz, and everyday.tsv (block, first line, lines, words)
next to everyday.txt.xz. FOLDER gets books.txt, a text for each group of blocks, transcripts.txt and, for each dev
manifest and for all of them, a text in dev/. Numbers and titles are written as words; accents are removed.

The texts hold no sentence of dev: the script leaves out a line that is a sentence of dev, or shares eight words in a
row with one. It leaves out a whole book with more than a few such lines, because dev holds readings of that book.
"""

import argparse
import itertools
import lzma
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from ds2.data.manifest import read_manifest
from ds2.data.prepare import run
from ds2.text import normalize
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder, numbered_lines

SOURCES = {  # texts of everyday.txt.xz; the Schema-Guided Dialogues (sgd) are share-alike and must stay out of a bundle
    "tatoeba": "tatoeba",
    "common_voice_sentences": "prompts",
    "oewn": "wordnet",
    "asp_stories": "stories",
    "nlu_eval": "commands",
    "clinc150": "commands",
    "snips": "commands",
    "taskmaster4": "commands",
}
TITLES = {"Mr": "mister", "Mrs": "missus", "Messrs": "messieurs", "Dr": "doctor", "St": "saint"}
LIGATURES = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ß": "ss", "ð": "d", "þ": "th", "ł": "l"})
SHARED = 8  # words in a row that a line may not share with dev
READ_ALOUD = 10  # lines that share words with dev; a book with more of them was read aloud for dev


class Block(NamedTuple):
    """Lines of a text that belong together: a book, or a source."""

    name: str
    lines: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--everyday", type=Path, required=True)
    parser.add_argument("--train", type=Path, nargs="+", required=True, metavar="MANIFEST")
    parser.add_argument("--dev", type=Path, nargs="+", required=True, metavar="MANIFEST")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    make_folder(arguments.output / "dev")
    dev = {path: sorted(set(transcripts(path))) for path in arguments.dev}
    for path, sentences in dev.items():
        write(arguments.output / "dev" / f"{path.stem}.txt", sentences)
    everything = sorted({sentence for sentences in dev.values() for sentence in sentences})
    write(arguments.output / "dev" / "all.txt", everything)
    held_out = HeldOut(everything)
    train = sorted({sentence for path in arguments.train for sentence in transcripts(path)})
    write(arguments.output / "transcripts.txt", [sentence for sentence in train if sentence not in held_out])
    write(arguments.output / "books.txt", books(arguments.books, held_out))
    for name, texts in itertools.groupby(
        sorted(everyday(arguments.everyday, held_out), key=lambda text: text[0]), lambda text: text[0]
    ):
        write(arguments.output / f"{name}.txt", (sentence for _, sentences in texts for sentence in sentences))


class HeldOut:
    """The sentences of dev, and the sequences of words that other texts must not share with them."""

    def __init__(self, sentences: Iterable[str]):
        self.whole = set(sentences)
        self.parts = {part for sentence in self.whole for part in parts(sentence)}

    def __contains__(self, sentence: str) -> bool:
        return sentence in self.whole or any(part in self.parts for part in parts(sentence))


def parts(sentence: str) -> Iterator[str]:
    """All sequences of SHARED words."""
    words = sentence.split()
    return (" ".join(words[start : start + SHARED]) for start in range(len(words) - SHARED + 1))


def transcripts(manifest: Path) -> Iterator[str]:
    return (sentence for each in read_manifest(manifest) if (sentence := spoken(each.text)))


def books(path: Path, held_out: HeldOut) -> Iterator[str]:
    """The sentences of all books except those that were read aloud."""
    for block, sentences in read_blocks(path):
        kept = [sentence for sentence in sentences if sentence not in held_out]
        if len(sentences) - len(kept) > READ_ALOUD:
            print(f"{block.name}: left out, dev reads it aloud")
        else:
            yield from kept


def everyday(path: Path, held_out: HeldOut) -> Iterator[tuple[str, list[str]]]:
    """(source, its sentences) of all used blocks; each sentence once, because several blocks may hold the same one."""
    seen: set[str] = set()
    for block, sentences in read_blocks(path):
        if block.name in SOURCES:
            fresh = [sentence for sentence in dict.fromkeys(sentences) if sentence not in seen]
            seen.update(fresh)
            yield SOURCES[block.name], [sentence for sentence in fresh if sentence not in held_out]


def read_blocks(path: Path) -> Iterator[tuple[Block, list[str]]]:
    """The blocks of an .xz text with their speakable sentences, divided by the .tsv next to it."""
    table = path.with_name(path.name.removesuffix(".txt.xz") + ".tsv")
    rows = [line.split("\t") for _, line in numbered_lines(table) if not line.startswith("source\t")]
    blocks = sorted((int(row[1]), Block(row[0], int(row[2]))) for row in rows)
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for _, block in blocks:
            sentences = [spoken(line) for line in lines(file, block, path)]
            yield block, [sentence for sentence in sentences if sentence]


def lines(file: TextIO, block: Block, path: Path) -> list[str]:
    found = list(itertools.islice(file, block.lines))
    if len(found) < block.lines:
        raise InputError(f"{path}: ends inside {block.name}; does the .tsv beside it belong to it?")
    return found


def spoken(text: str) -> str:
    """The text as in transcripts, in a to z and apostrophes; empty if that is not possible."""
    text = re.sub(r"\b(Mr|Mrs|Messrs|Dr|St)\b\.?(?= [A-Z])", lambda title: TITLES[title[1]], text)
    sentence = normalize(text, "en")
    if not sentence.isascii():
        letters = unicodedata.normalize("NFKD", sentence.translate(LIGATURES))
        sentence = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return sentence if re.fullmatch("[a-z' ]+", sentence) else ""


def write(path: Path, sentences: Iterable[str]) -> None:
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(sentence + "\n" for sentence in sentences)


if __name__ == "__main__":
    run(main)
