"""Trains the tagger that gives recognised words their punctuation and capitals, and adds it to a bundle.

    python recipes/english/punctuation.py train --books books.txt.xz --everyday everyday.txt.xz punctuation.safetensors
    python recipes/english/punctuation.py add punctuation.safetensors BUNDLE
    python recipes/english/punctuation.py score BUNDLE dev-common-voice.jsonl --prose MANIFEST

books.tsv and everyday.tsv lie beside the texts. The books of every eighth author are held out; their F1 is printed.
Training that was killed goes on when the command is run again. `score` measures F1 on recognised text: the transcripts
of all utterances, one after another, without their ends; MANIFEST has the same texts with punctuation.
"""

import argparse
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from lm_texts import SOURCES
from punctuation_tagger import Tagger
from punctuation_texts import COMMA, QUESTION, STOP, Text, blocks, divided, read
from torch import Tensor

from ds2.bundle import Bundle
from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest
from ds2.metrics import align_texts
from ds2.model_record import PunctuationPart
from ds2.recognition.punctuation import MARKS, Punctuator, number_of
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.text import normalize
from ds2.train.optimizer import Muon
from ds2.utils.files import atomic_write
from ds2.utils.processor import has_bfloat16

WORDS = 16_000  # in the list: the most frequent
CROP, BATCH = 128, 64  # words, crops of an update
LEARNING_RATE, WEIGHT_DECAY = 5e-3, 0.1
RISES, FALLS = 0.02, 0.98  # share of the updates at the begin and at the end in which the rate is lower
STEADY = 200_000  # words that are kept from training: on them the marks' biases are chosen
BIASES = np.arange(-1.0, 2.01, 0.1)  # nats that a mark may gain for the best F1
NAMES = ("", "comma", "full_stop", "question")  # of the marks
MOST_WRONG = 0.4  # share of a crop's words that others may replace
SAVED_EVERY = 50  # updates
PIECE = 1000  # words of a text that is measured, in batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    trained = commands.add_parser("train")
    trained.add_argument("output", type=Path)
    trained.add_argument("--books", type=Path, required=True)
    trained.add_argument("--everyday", type=Path, required=True)
    trained.add_argument("--updates", type=int, default=7000)
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
    replace(bundle, punctuation=source.punctuation).save(arguments.bundle)


def train(arguments: argparse.Namespace) -> None:
    """Trains on books and everyday sentences, measures on the books of authors that were held out."""
    books, held_out = divided(blocks(arguments.books))
    everyday = (line for name, lines in blocks(arguments.everyday) if name in SOURCES for line in lines)
    text, test = read(itertools.chain(books, everyday)), read(held_out)
    words = [word for word, _ in Counter(text.words).most_common(WORDS)]
    torch.manual_seed(1)
    tagger = Tagger(len(words))
    print(f"{len(text.words):,} words to train on, {len(test.words):,} held out", flush=True)
    numbers, partial = numbered(words, text), arguments.output.with_suffix(".partial")
    kept = min(STEADY, len(text.words) // 10)
    learn(tagger, [each[kept:] for each in numbers], arguments.updates, partial)
    set_biases(tagger, [each[:kept] for each in numbers])
    figures = measure(tagger, numbered(words, test))
    print(", ".join(f"{name} {value:.3f}" for name, value in figures.items()), flush=True)
    state = {name: tensor.half() for name, tensor in tagger.state_dict().items()}
    punctuation = PunctuationPart(words, figures, arguments.updates * CROP * BATCH, state)
    Bundle(weights={}, config={}, tokens=[], punctuation=punctuation).save(arguments.output)
    partial.unlink(missing_ok=True)


def numbered(words: list[str], text: Text) -> list[Tensor]:
    """(N,) numbers of the words, marks, capitals."""
    index = {word: number for number, word in enumerate(words)}
    known = {word: number_of(word, index) for word in set(text.words)}
    numbers = np.fromiter(map(known.__getitem__, text.words), np.int32, len(text.words))
    return [torch.from_numpy(numbers), *(torch.tensor(each, dtype=torch.int8) for each in (text.marks, text.capitals))]


def learn(tagger: Tagger, text: list[Tensor], updates: int, partial: Path) -> None:
    """Random crops of the text. `partial` keeps the state from which it goes on."""
    tagger.train()
    optimizer = Muon(tagger, LEARNING_RATE, WEIGHT_DECAY)
    parts = {"tagger": tagger, "optimizer": optimizer}
    done, total = 0, 0.0
    if partial.exists():
        state = torch.load(partial)
        done = state["done"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
    for update in range(done + 1, updates + 1):
        loss = cross_entropy(tagger, *crops_of(text, torch.Generator().manual_seed(update)))
        optimizer.zero_grad()
        loss.backward()
        share = min(1.0, update / (RISES * updates), (1 + updates - update) / (FALLS * updates))
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * share
        torch.nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        if update % SAVED_EVERY == 0:
            print(f"update {update}: loss {total / SAVED_EVERY:.4f}", flush=True)
            total = 0.0
            with atomic_write(partial) as file:
                torch.save({"done": update, **{name: part.state_dict() for name, part in parts.items()}}, file)
    tagger.eval()


def crops_of(text: list[Tensor], generator: torch.Generator) -> list[Tensor]:
    """(BATCH, CROP) words, marks and capitals; to a share that each crop draws other words stand there, as if they had
    been recognised wrongly."""
    places = torch.randint(len(text[0]) - CROP, (BATCH, 1), generator=generator) + torch.arange(CROP)
    others = torch.randint(len(text[0]), places.shape, generator=generator)
    share = MOST_WRONG * torch.rand(BATCH, 1, generator=generator)
    heard = torch.where(torch.rand(places.shape, generator=generator) < share, others, places)
    words, marks, capitals = text
    return [words[heard], marks[places], capitals[heard]]


def cross_entropy(tagger: Tagger, words: Tensor, marks: Tensor, capitals: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16()):
        scores = tagger(words)
    scores = scores.float()
    of_marks = torch.nn.functional.cross_entropy(scores[..., :-1].flatten(0, 1), marks.flatten().long())
    return of_marks + 0.5 * torch.nn.functional.binary_cross_entropy_with_logits(scores[..., -1], capitals.float())


def set_biases(tagger: Tagger, text: list[Tensor]) -> None:
    """Gives each mark the nats of its best F1 on text not trained on: what is most probable has too few."""
    scores, marks = scored(tagger, text[0]), text[1].numpy()
    with torch.no_grad():
        for mark in (QUESTION, STOP, COMMA):
            best = max(BIASES, key=lambda bias, mark=mark: f1_with(scores, marks, mark, bias))
            scores[:, mark] += best
            tagger.output.bias[mark] += best


def f1_with(scores: np.ndarray, marks: np.ndarray, mark: int, bias: float) -> float:
    others = np.delete(scores[:, : len(MARKS)], mark, 1).max(1)
    return f1(scores[:, mark] + bias > others, marks == mark)


@torch.inference_mode()
def scored(tagger: Tagger, words: Tensor) -> np.ndarray:
    """(N,) numbers of words -> (N, MARKS + 1) scores, of pieces of the text."""
    pieces = torch.nn.functional.pad(words, (0, -len(words) % PIECE)).reshape(-1, PIECE)
    scores = [tagger(batch).flatten(0, 1) for batch in pieces.split(BATCH)]
    return torch.cat(scores)[: len(words)].numpy()


def measure(tagger: Tagger, text: list[Tensor]) -> dict[str, float]:
    """F1 of each mark and of capitals."""
    scores, marks, capitals = scored(tagger, text[0]), text[1].numpy(), text[2].numpy()
    found = scores[:, : len(MARKS)].argmax(1)
    figures = {NAMES[mark]: f1(found == mark, marks == mark) for mark in range(1, len(MARKS))}
    return figures | {"capital": f1(scores[:, -1] > 0, capitals == 1)}


def f1(found: np.ndarray, true: np.ndarray) -> float:
    return 2 * float((found & true).sum()) / max(1.0, float(found.sum() + true.sum()))


def score(arguments: argparse.Namespace) -> None:
    """Recognises the utterances whose prose is known, and compares the marks with those of the prose."""
    prose = {normalize(each.text, "en"): each.text for each in read_manifest(arguments.prose)}
    utterances = [each for each in read_manifest(arguments.manifest) if each.text in prose]
    results = Recognizer.load(arguments.bundle).transcribe_files(each.span for each in utterances)
    words = [word.text for _, transcript in results if isinstance(transcript, Transcript) for word in transcript.words]
    punctuate = Punctuator.from_bundle(Bundle.load(arguments.bundle))
    figures = compare(punctuate, words, read(prose[each.text] for each in utterances))
    print(f"{len(utterances)} utterances: " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items()))


def compare(punctuate: Punctuator, words: list[str], truth: Text) -> dict[str, float]:
    """F1 of the marks after recognised words: one is right if the reference has it after the word aligned with it."""
    places, heard, true = itertools.count(), itertools.count(), []
    marks = np.zeros(len(words), np.int8)
    for edit in align_texts(truth.words, words):
        place = next(places) if edit.reference is not None else None
        number = next(heard) if edit.hypothesis is not None else None
        if place is not None and number is not None:
            marks[number] = truth.marks[place]
        elif place is not None:
            true.append(truth.marks[place])
    found = np.array([mark for mark, _ in punctuate.tags(words)] + [0] * len(true))
    marks = np.append(marks, true)  # with those after words that were not recognised
    return {NAMES[mark]: f1(found == mark, marks == mark) for mark in range(1, len(MARKS))}


if __name__ == "__main__":
    run_script(main)
