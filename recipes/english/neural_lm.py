"""Trains the neural language model of the second pass on texts, and adds it to a bundle.

    python recipes/english/neural_lm.py train TEXTS neural.safetensors [--start BUNDLE]
    python recipes/english/neural_lm.py add neural.safetensors BUNDLE TUNING

TEXTS is what lm_texts.py wrote: books.txt, a text for each other source, dev/. neural.pieces/ keeps them as numbers of
pieces, and neural.partial the state of training: killed training goes on when the command is run again, and ended
training when --updates are more, since the rate falls in the last updates only. --start begins with the model of a
bundle, and with its pieces. The perplexity of dev is for each word and each end of a sentence.
"""

import argparse
import itertools
import json
import math
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from neural_lm_loss import NO_PIECE
from neural_lm_network import Network
from torch import Tensor

from ds2.bundle import Bundle
from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest
from ds2.lm.pieces import Pieces, learn_pieces
from ds2.model_record import NeuralModelPart
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.tune_second_pass import tune_second_pass, with_second_pass
from ds2.train.optimizer import Muon
from ds2.utils.files import atomic_write, make_folder, numbered_lines

PIECES = 4095
LEARNT_FROM = 150_000  # words: the most frequent ones in the mixture of texts
BOOKS = "books"
OTHERS = {  # of the texts besides books: their shares
    "transcripts": 0.25, "tatoeba": 0.25, "prompts": 0.2, "wordnet": 0.17, "commands": 0.08, "stories": 0.05,
}  # fmt: skip
SHARE, LAST_SHARE = 0.3, 0.45  # of the others together, and while the rate falls
TOKENS = 8192  # of an update: pieces and ends of sentences
POOL = 64  # updates whose sentences are sorted by length together
LONGEST = 96  # pieces of a sentence
LEARNING_RATE, WEIGHT_DECAY, RISES = 3e-3, 0.1, 300  # updates in which the rate rises, at most those before it falls
SAVED_EVERY = 250  # updates
MEASURED = 64  # sentences at once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    trained = commands.add_parser("train")
    trained.add_argument("texts", type=Path)
    trained.add_argument("output", type=Path)
    trained.add_argument("--updates", type=int, default=3750)
    trained.add_argument("--start", type=Path, metavar="BUNDLE", help="train on from the model of this one")
    trained.add_argument("--falls", type=int, default=1500, help="updates at the end in which the rate falls")
    trained.add_argument("--rate", type=float, default=LEARNING_RATE, help="less for a model that learnt before")
    trained.set_defaults(run=train)
    added = commands.add_parser("add")
    added.add_argument("neural", type=Path)
    added.add_argument("bundle", type=Path)
    added.add_argument("tuning", type=Path, help="manifest whose utterances choose the weight of the second pass")
    added.set_defaults(run=add)
    arguments = parser.parse_args()
    arguments.run(arguments)


def add(arguments: argparse.Namespace) -> None:
    """Copies the model into a bundle, and chooses the weights of its second pass."""
    added, bundle = Bundle.load(arguments.neural), Bundle.load(arguments.bundle)
    bundle = replace(bundle, neural_model=added.neural_model)
    recognizer = Recognizer.from_bundle(bundle, str(arguments.bundle))
    chosen = tune_second_pass(recognizer, read_manifest(arguments.tuning))
    with_second_pass(bundle, chosen).save(arguments.bundle)
    print(f"error rate {chosen.before:.2%} by the first pass, {chosen.after:.2%} by both")
    print(f"weight {chosen.weight:g}, bonus {chosen.bonus:g}, {chosen.kept:g} of the search's")


def train(arguments: argparse.Namespace) -> None:
    """Divides the texts into pieces, learns, and writes a bundle that holds only the model."""
    folder = arguments.output.with_suffix(".pieces")
    start = Bundle.load(arguments.start).neural_model if arguments.start else None
    if not (folder / "pieces.json").exists():
        divide(arguments.texts, folder, start.pieces if start else None)
    pieces = json.loads((folder / "pieces.json").read_text())
    texts = {name: Text(folder / f"{name}.npz") for name in (BOOKS, *OTHERS)}
    dev = {path.stem: Text(path) for path in sorted(folder.glob("dev/*.npz"))}
    torch.manual_seed(1)
    network, partial = Network(len(pieces) + 1), arguments.output.with_suffix(".partial")
    if start:
        network.take({name: np.asarray(array) for name, array in start.arrays.items()})
    learn(network, texts, dev, Schedule(arguments.updates, arguments.falls, arguments.rate), partial)
    arrays = {name: torch.from_numpy(values) for name, values in network.arrays().items()}
    Bundle(weights={}, config={}, tokens=[], neural_model=NeuralModelPart(pieces, arrays=arrays)).save(arguments.output)


def divide(texts: Path, folder: Path, pieces: Sequence[str] | None) -> None:
    """Writes each text as numbers of pieces, dev as well, and the pieces last, which it learns if there are none."""
    make_folder(folder / "dev")
    files = {path: path.stem for path in sorted(texts.glob("*.txt"))}
    pieces = pieces or learnt_pieces(files)
    files |= {path: f"dev/{path.stem}" for path in sorted((texts / "dev").glob("*.txt"))}
    for path, name in files.items():
        write_text(path, folder / f"{name}.npz", Pieces(pieces))
    with atomic_write(folder / "pieces.json") as partial:
        partial.write_text(json.dumps(list(pieces)))


def learnt_pieces(files: Mapping[Path, str]) -> list[str]:
    """The pieces of the mixture of texts."""
    counts = {name: Counter(word for line in lines(path) for word in line.split()) for path, name in files.items()}
    mixture: Counter[str] = Counter()
    for name, found in counts.items():
        share = shares(SHARE)[name] / found.total()
        mixture.update({word: count * share for word, count in found.items()})
    learnt = {word: math.ceil(weight * 1e8) for word, weight in mixture.most_common(LEARNT_FROM)}
    return learn_pieces(learnt, PIECES)


def write_text(source: Path, target: Path, pieces: Pieces) -> None:
    """A text as numbers, the ends of its sentences, and the count of its words."""
    numbers, ends, words = array("H"), array("Q"), 0
    for line in lines(source):
        for word in line.split():
            numbers.extend(pieces.divide(word) or ())
            words += 1
        ends.append(len(numbers))
    print(f"{target.name}: {words:,} words, {len(numbers):,} pieces", flush=True)
    with atomic_write(target) as partial, partial.open("wb") as file:
        np.savez(file, numbers=np.frombuffer(numbers, np.uint16), ends=np.frombuffer(ends, np.int64), words=words)


def lines(path: Path) -> Iterator[str]:
    return (line for _, line in numbered_lines(path))


def shares(of_others: float) -> dict[str, float]:
    """The share of each text if the others have so much together."""
    return {BOOKS: 1 - of_others} | {name: of_others * share for name, share in OTHERS.items()}


class Text:
    """The sentences of a text, as numbers of pieces."""

    def __init__(self, path: Path):
        found = np.load(path)
        self.numbers, self.ends, self.words = found["numbers"], found["ends"], int(found["words"])

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: int) -> np.ndarray:
        start = self.ends[place - 1] if place else 0
        return self.numbers[start : self.ends[place]]


class Schedule(NamedTuple):
    """The rate of each update: it rises, stays, and falls in the last ones."""

    updates: int
    falls: int
    highest: float

    def rate(self, update: int) -> float:
        rises = max(1, min(RISES, self.updates - self.falls))
        return self.highest * min(1.0, update / rises, (1 + self.updates - update) / self.falls)


def learn(
    network: Network, texts: Mapping[str, Text], dev: Mapping[str, Text], schedule: Schedule, partial: Path
) -> None:
    """Sentences drawn from the texts. `partial` keeps the state from which it goes on."""
    optimizer, updates = Muon(network, schedule.highest, WEIGHT_DECAY), schedule.updates
    parts = {"network": network, "optimizer": optimizer}
    done, total, began = 0, 0.0, time.monotonic()
    if partial.exists():
        state = torch.load(partial)
        done = state["done"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
    for update, sentences in zip(
        range(done + 1, updates + 1), minibatches(texts, done, updates - schedule.falls), strict=False
    ):
        loss = network.losses(*padded(sentences))
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(update)
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        if update % SAVED_EVERY == 0 or update == updates:
            found = ", ".join(f"{name} {perplexity(network, text):.1f}" for name, text in dev.items())
            seconds = time.monotonic() - began
            print(f"update {update}, {seconds:.0f} s: loss {total / SAVED_EVERY:.4f}; {found}", flush=True)
            total = 0.0
            with atomic_write(partial) as file:
                torch.save({"done": update, **{name: part.state_dict() for name, part in parts.items()}}, file)


def minibatches(texts: Mapping[str, Text], done: int, steady: int) -> Iterator[list[np.ndarray]]:
    """The sentences of each update after `done`; those of POOL updates are drawn together, and shared out by length.

    After `steady` updates more of them come from other texts than books.
    """
    for pool in itertools.count(done // POOL):
        random = np.random.default_rng(pool)
        sentences = []
        for name, share in shares(SHARE if pool * POOL < steady else LAST_SHARE).items():
            text = texts[name]
            wanted = TOKENS * POOL * share / (len(text.numbers) / len(text) + 1)
            sentences += [text[place][:LONGEST] for place in random.integers(len(text), size=round(wanted))]
        sentences.sort(key=len)
        before = np.cumsum([len(sentence) + 1 for sentence in sentences])
        cuts = np.searchsorted(before, before[-1] * np.arange(POOL + 1) / POOL)
        groups = [sentences[first:last] for first, last in itertools.pairwise(cuts)]
        random.shuffle(groups)
        yield from groups[done % POOL if pool == done // POOL else 0 :]


def padded(sentences: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """(T, B) pieces before each piece and each end, and those; NO_PIECE after an end."""
    shape = max(map(len, sentences)) + 1, len(sentences)
    before, wanted = np.zeros(shape, np.int64), np.full(shape, NO_PIECE, np.int64)
    for column, sentence in enumerate(sentences):
        before[1 : len(sentence) + 1, column] = wanted[: len(sentence), column] = sentence
        wanted[len(sentence), column] = 0
    return torch.from_numpy(before), torch.from_numpy(wanted)


@torch.inference_mode()
def perplexity(network: Network, text: Text) -> float:
    network.eval()
    sentences = sorted((text[place] for place in range(len(text))), key=len)
    total = 0.0
    for first in range(0, len(sentences), MEASURED):
        before, wanted = padded(sentences[first : first + MEASURED])
        total += network.losses(before, wanted).item() * int((wanted != NO_PIECE).sum())
    network.train()
    return math.exp(total / (text.words + len(text)))


if __name__ == "__main__":
    run_script(main)
