"""The texts for the language model: one normalised text for each source, one sentence per line.

    python recipes/english/lm_texts.py --books books.txt.xz --everyday everyday.txt.xz \\
        --train MANIFEST... --dev MANIFEST... --output FOLDER [--collection BOOKS] [--leave-out LIST]

books.tsv (book, first line, lines, words) is next to books.txt.xz, and everyday.tsv (block, first line, lines, words)
next to everyday.txt.xz. BOOKS is a folder of plain texts, one file for each book: of those that books.tsv names, the
script reads only books.txt.xz, and it leaves out those whose file names match a line of LIST. FOLDER gets books.txt, a
text for each group of blocks, transcripts.txt and, for each dev manifest and for all of them, a text in dev/. Numbers
and titles are written as words; accents are removed; a long sentence of several books counts once.

The texts hold no sentence of dev: the script leaves out a line that is a sentence of dev, or shares eight words in a
row with one. It leaves out a whole book with more than a few such lines, because dev holds readings of that book.
"""

import argparse
import fnmatch
import itertools
import lzma
import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest
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
PARAGRAPH = re.compile(r"\n\s*\n")
NOTE = re.compile(r"\[[^\]]*\]|[_*]")  # footnotes and pictures, and the marks of italics
WHOLE = re.compile(r"[.!?,;:-]['\"’”)]*$")  # a paragraph; headings and tables of contents end otherwise
SHORTENED = re.compile(r"\b(Mr|Mrs|Messrs|Dr|St|[A-Z])\.(?= )")
SENTENCE_END = re.compile(r"[.!?]['\"’”)]*\s+(?=['\"‘“(]*[A-Z])")
MOST_NUMBERS = 2  # in a sentence; one with more is a row of a table or of an index
LIGATURES = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ß": "ss", "ð": "d", "þ": "th", "ł": "l"})
SHARED = 8  # words in a row that a line may not share with dev
READ_ALOUD = 10  # lines that share words with dev; a book with more of them was read aloud for dev


Book = tuple[str, list[str]]  # name, or that of a source, and sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--everyday", type=Path, required=True)
    parser.add_argument("--collection", type=Path, metavar="BOOKS")
    parser.add_argument("--leave-out", type=Path, metavar="LIST")
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
    collection: Iterable[Book] = ()
    if arguments.collection:
        left_out = [name for _, name in numbered_lines(arguments.leave_out)] if arguments.leave_out else []
        collection = read_collection(arguments.collection, {row[0] for row in table(arguments.books)}, left_out)
    found = itertools.chain(read_blocks(arguments.books), collection)
    write(arguments.output / "books.txt", books(found, held_out))
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


def books(found: Iterable[Book], held_out: HeldOut) -> Iterator[str]:
    """The sentences of all books except those that were read aloud; each long one once, because many books are parts
    or editions of others."""
    seen: set[int] = set()
    for name, sentences in found:
        kept = [sentence for sentence in sentences if sentence not in held_out]
        if len(sentences) - len(kept) > READ_ALOUD:
            print(f"{name}: left out, dev reads it aloud")
            continue
        for sentence in kept:
            number = hash(sentence) if sentence.count(" ") >= SHARED else None
            if number not in seen:
                yield sentence
            if number is not None:
                seen.add(number)


def read_collection(folder: Path, known: Container[str], left_out: Sequence[str]) -> Iterator[Book]:
    """The books of a folder with their speakable sentences: those not known yet, without those whose file names match
    one of `left_out`."""
    pattern = re.compile("|".join(map(fnmatch.translate, left_out)) or "$")
    for path in sorted(folder.glob("*.txt")):
        if path.stem not in known and not pattern.match(path.name):
            text = path.read_text(encoding="utf-8", errors="replace")
            yield path.stem, [words for sentence in split(text) if (words := spoken(sentence))]


def split(text: str) -> Iterator[str]:
    """The sentences of a plain text with its lines broken and its paragraphs apart."""
    for paragraph in PARAGRAPH.split(NOTE.sub("", text)):
        if WHOLE.search(joined := " ".join(paragraph.split())):
            for sentence in SENTENCE_END.split(SHORTENED.sub(r"\1", joined)):
                if len(re.findall(r"\d+", sentence)) <= MOST_NUMBERS:
                    yield sentence


def everyday(path: Path, held_out: HeldOut) -> Iterator[tuple[str, list[str]]]:
    """(source, its sentences) of all used blocks; each sentence once, because several blocks may hold the same one."""
    seen: set[str] = set()
    for name, sentences in read_blocks(path):
        if name in SOURCES:
            fresh = [sentence for sentence in dict.fromkeys(sentences) if sentence not in seen]
            seen.update(fresh)
            yield SOURCES[name], [sentence for sentence in fresh if sentence not in held_out]


def read_blocks(path: Path) -> Iterator[Book]:
    """The blocks of an .xz text with their speakable sentences, divided by the .tsv next to it."""
    blocks = sorted((int(first), int(count), name) for name, first, count, _ in table(path))
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for _, count, name in blocks:
            found = list(itertools.islice(file, count))
            if len(found) < count:
                raise InputError(f"{path}: ends inside {name}; does the .tsv beside it belong to it?")
            yield name, [sentence for line in found if (sentence := spoken(line))]


def table(path: Path) -> list[list[str]]:
    """The rows of the .tsv next to an .xz text: name, first line, lines, words."""
    rows = [line.split("\t") for _, line in numbered_lines(path.with_name(path.name.removesuffix(".txt.xz") + ".tsv"))]
    return [row for row in rows if row[0] != "source"]


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
    run_script(main)
