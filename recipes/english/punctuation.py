"""Trains the tagger that gives recognised words their punctuation and capitals, and adds it to a bundle.

    python recipes/english/punctuation.py train --books books.txt.xz --everyday everyday.txt.xz punctuation.safetensors
    python recipes/english/punctuation.py add punctuation.safetensors BUNDLE
    python recipes/english/punctuation.py score BUNDLE dev-common-voice.jsonl --prose MANIFEST

books.tsv and everyday.tsv lie beside the texts. The books of every eighth author are held out; their F1 is printed.
`score` measures F1 on recognised text: the transcripts of all utterances, one after another, without their ends;
MANIFEST has the same texts with punctuation. Semicolons, colons and dashes count as commas, exclamation marks as full
stops. Quotation marks are left out.
"""

import argparse
import functools
import itertools
import lzma
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from lm_texts import SOURCES, Block
from torch import Tensor

from ds2.bundle import Bundle
from ds2.data.manifest import read_manifest
from ds2.data.prepare import run
from ds2.metrics import align
from ds2.recognition.punctuation import MARKS, Punctuator, Tagger, TaggerConfig
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.text import normalize

WORDS = 16_000  # in the list: the most frequent
HELD_OUT = 8  # every eighth author is
TEST_LINES = 30_000
CROP, BATCH = 256, 32  # words, crops of an update
LEARNING_RATE = 3e-3
TITLES = {"mr.": "mister", "mrs.": "missus", "ms.": "miss", "dr.": "doctor", "st.": "saint"}
DASHES = re.compile(r"\s*(?:--+|—|–)\s*")
NAMES = ("", "comma", "full_stop", "question")  # of the marks
SHOWN_EVERY = 100  # updates


@dataclass(frozen=True)
class Text:
    """N words, the mark after each, and whether it has a capital."""

    words: list[str]
    marks: array
    capitals: array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    trained = commands.add_parser("train")
    trained.add_argument("output", type=Path)
    trained.add_argument("--books", type=Path, required=True)
    trained.add_argument("--everyday", type=Path, required=True)
    trained.add_argument("--updates", type=int, default=1500)
    trained.add_argument("--lines", type=int, default=600_000, help="of the books, and as many of the sentences")
    trained.set_defaults(run=train)
    added = commands.add_parser("add")
    added.add_argument("punctuation", type=Path)
    added.add_argument("bundle", type=Path)
    added.set_defaults(run=add)
    scored = commands.add_parser("score")
    scored.add_argument("bundle", type=Path)
    scored.add_argument("manifest", type=Path)
    scored.add_argument("--prose", type=Path, required=True)
    scored.set_defaults(run=score)
    arguments = parser.parse_args()
    arguments.run(arguments)


def add(arguments: argparse.Namespace) -> None:
    """Copies the tagger into a bundle."""
    source, bundle = Bundle.load(arguments.punctuation), Bundle.load(arguments.bundle)
    metadata = {**bundle.metadata, "punctuation": source.metadata["punctuation"]}
    replace(bundle, metadata=metadata, punctuation=source.punctuation).save(arguments.bundle)


def train(arguments: argparse.Namespace) -> None:
    """Trains on books and everyday sentences, measures on the books of authors that were held out."""
    books, held_out = divided(blocks(arguments.books))
    everyday = (line for name, lines in blocks(arguments.everyday) if name in SOURCES for line in lines)
    text = read([*books[: arguments.lines], *itertools.islice(everyday, arguments.lines)])
    test = read(held_out[:TEST_LINES])
    counts = Counter(text.words)
    words = [word for word, _ in counts.most_common(WORDS)]
    torch.manual_seed(1)
    punctuator = Punctuator(words, Tagger(TaggerConfig(len(words))))
    print(f"{len(text.words):,} words to train on, {len(test.words):,} held out", flush=True)
    learn(punctuator, text, arguments.updates)
    figures = measure(punctuator, test)
    print(", ".join(f"{name} {value:.3f}" for name, value in figures.items()), flush=True)
    about = {"f1": figures, "trained_words": len(text.words)}
    empty = Bundle({}, {"config": {}, "tokens": []})
    punctuator.added_to(empty, about).save(arguments.output)


def score(arguments: argparse.Namespace) -> None:
    """Recognises the utterances whose prose is known, and compares the marks with those of the prose."""
    prose = {normalize(each.text, "en"): each.text for each in read_manifest(arguments.prose)}
    utterances = [each for each in read_manifest(arguments.manifest) if each.text in prose]
    results = Recognizer.load(arguments.bundle).transcribe_files(each.segment for each in utterances)
    words = [word.text for _, transcript in results if isinstance(transcript, Transcript) for word in transcript.words]
    punctuator = Punctuator.from_bundle(Bundle.load(arguments.bundle))
    figures = compare(punctuator, words, read(prose[each.text] for each in utterances))
    print(f"{len(utterances)} utterances: " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items()))


def compare(punctuator: Punctuator, words: list[str], truth: Text) -> dict[str, float]:
    """F1 of the marks after recognised words: one is right if the reference has it after the word aligned with it."""
    places, heard, true = itertools.count(), itertools.count(), []
    marks = torch.zeros(len(words), dtype=torch.int8)
    for edit in align(truth.words, words):
        place = next(places) if edit.reference is not None else None
        number = next(heard) if edit.hypothesis is not None else None
        if place is not None and number is not None:
            marks[number] = truth.marks[place]
        elif place is not None:
            true.append(truth.marks[place])
    found = torch.tensor([mark for mark, _ in punctuator.tags(words)] + [0] * len(true))
    marks = torch.cat([marks, torch.tensor(true, dtype=torch.int8)])  # those after words that were not recognised
    return {NAMES[mark]: f1(found == mark, marks == mark) for mark in range(1, len(MARKS))}


def blocks(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The name and the lines of each book or source."""
    table = path.with_name(path.name.split(".")[0] + ".tsv").read_text().splitlines()
    rows = [line.split("\t") for line in table if line.split("\t")[1].isdigit()]
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for block in (Block(row[0], int(row[2])) for row in rows):
            yield block.name, [next(file).strip() for _ in range(block.lines)]


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
    for line in lines:
        if any(character.isdigit() for character in line):
            continue
        for raw in DASHES.sub(", ", line).split():
            words, mark, capital = parsed(raw)
            text.words.extend(words)
            text.marks.extend([0] * (len(words) - 1) + [mark] * bool(words))
            text.capitals.extend([capital] * bool(words) + [0] * (len(words) - 1))
    return text


@functools.cache
def parsed(raw: str) -> tuple[list[str], int, int]:
    """ "Well-known," -> ["well", "known"], the number of the comma, 1 for its capital."""
    bare = raw.strip("\"“”‘’'()[]_*")
    if bare.lower() in TITLES:
        return [TITLES[bare.lower()]], 0, 1
    ending = re.search(r"[^\w]*$", raw)
    marks = ending[0] if ending else ""
    mark = 3 if "?" in marks else 2 if "." in marks or "!" in marks else 1 if re.search("[,;:]", marks) else 0
    words = normalize(bare, "en").split()
    letters = [character for character in bare if character.isalpha()]
    return words, mark, int(bool(letters) and letters[0].isupper())


def learn(punctuator: Punctuator, text: Text, updates: int) -> None:
    """Random crops of the text; a cosine of the learning rate."""
    tagger = punctuator.tagger.train()
    words, marks, capitals = numbered(punctuator, text)
    optimizer = torch.optim.AdamW(tagger.parameters(), LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, updates, pct_start=0.1)
    total = 0.0
    for update in range(1, updates + 1):
        starts = torch.randint(len(words) - CROP, (BATCH, 1))
        crops = starts + torch.arange(CROP)
        loss = cross_entropy(tagger, words[crops], marks[crops], capitals[crops])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
        if update % SHOWN_EVERY == 0:
            print(f"update {update}: loss {total / SHOWN_EVERY:.4f}", flush=True)
            total = 0.0
    tagger.eval()


def cross_entropy(tagger: Tagger, words: Tensor, marks: Tensor, capitals: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        scores, odds = tagger(words)
    scores, odds = scores.float(), odds.float()
    of_marks = torch.nn.functional.cross_entropy(scores.flatten(0, 1), marks.flatten().long())
    return of_marks + torch.nn.functional.binary_cross_entropy_with_logits(odds, capitals.float())


def numbered(punctuator: Punctuator, text: Text) -> tuple[Tensor, Tensor, Tensor]:
    number = functools.cache(punctuator.number)
    words = torch.tensor(array("i", map(number, text.words)), dtype=torch.int32)
    return words, torch.tensor(text.marks, dtype=torch.int8), torch.tensor(text.capitals, dtype=torch.int8)


@torch.inference_mode()
def measure(punctuator: Punctuator, text: Text) -> dict[str, float]:
    """F1 of each mark and of capitals."""
    words, marks, capitals = numbered(punctuator, text)
    scores, odds = zip(*(punctuator.tagger(part[None]) for part in words.split(10_000)), strict=True)
    found, raised = torch.cat(scores, 1)[0].argmax(1), torch.cat(odds, 1)[0] > 0
    figures = {NAMES[mark]: f1(found == mark, marks == mark) for mark in range(1, len(MARKS))}
    return figures | {"capital": f1(raised, capitals == 1)}


def f1(found: Tensor, true: Tensor) -> float:
    both = float((found & true).sum())
    return 2 * both / max(1.0, float(found.sum() + true.sum()))


if __name__ == "__main__":
    run(main)
