"""LSTM against BN-LSTM on the paper's own kinds of task (Cooijmans et al. 2016, section 5), small.

    python recipes/recurrent_bn/compare.py language RESULTS --text books.txt.xz [--updates 600] [--seeds 1 2 3]
    python recipes/recurrent_bn/compare.py pixels RESULTS [--permuted] [--updates 600] [--seeds 1 2 3]
    python recipes/recurrent_bn/compare.py table RESULTS                                    # speech.sh's runs as well

language predicts the characters of books in sequences of 100, and at the end of longer ones; pixels reads the scanned
digits of scikit-learn, 14 x 14 pixels in order or permuted. Both cells have the same number of units.
A line of JSON for each evaluation goes to RESULTS/TASK.CELL.SEED.jsonl; a run that is there already is not repeated.
"""

import argparse
import json
import lzma
import math
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ds2.cli.recipe_scripts import run_script
from ds2.model.recurrent import BNLSTMDirection, Direction
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder
from ds2.utils.plots import save_png, subplots
from ds2.utils.resources import keep_freed_memory

CELLS = ("lstm", "bn-lstm")
HIDDEN, BATCH, RATE, CLIP = 256, 64, 2e-3, 1.0  # Adam; the paper's rate, falling to 0, and clip for Penn Treebank
CHARACTERS, HELD_OUT, LENGTH = 5_000_000, 200_000, 100
LONGER = (200, 400)  # sequences at test
EVERY = 100  # updates between evaluations

Batches = Iterator[tuple[Tensor, Tensor]]  # (B, T, D) inputs, (B, T) or (B,) targets


class Network(nn.Module):
    """One recurrent layer and an output, for each time step or after the last one."""

    def __init__(self, cell: str, inputs: int, outputs: int, last: bool):
        super().__init__()
        plain = Direction("lstm", inputs, HIDDEN, batch_norm=False)
        self.recurrent = BNLSTMDirection(inputs, HIDDEN) if cell == "bn-lstm" else plain
        self.output = nn.Linear(HIDDEN, outputs)
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, V) or (B, V) scores."""
        states = self.recurrent(x, torch.full((len(x),), x.shape[1]), None)
        return self.output(states[:, -1] if self.last else states)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["language", "pixels", "table"])
    parser.add_argument("results", type=Path)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--permuted", action="store_true")
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    if arguments.task == "table":
        print_table(arguments.results)
        return
    keep_freed_memory()
    make_folder(arguments.results)
    language = arguments.task == "language"
    task = Language(arguments.text) if language else Pixels(arguments.permuted)
    for seed in arguments.seeds:
        for cell in CELLS:
            path = arguments.results / f"{task.name}.{cell}.{seed}.jsonl"
            if not path.exists():
                train(task, cell, seed, arguments.updates, path)


class Language:
    """The next character of books. Errors are bits per character."""

    name = "language"
    last = False
    unit = "bits per character"

    def __init__(self, path: Path | None):
        if path is None:
            raise InputError("language needs --text books.txt.xz, a text of 5 million characters")
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
            text = " ".join(file.read(CHARACTERS + HELD_OUT).split())
        known = sorted(set(text))
        index = {character: number for number, character in enumerate(known)}
        codes = torch.tensor([index[character] for character in text])
        self.inputs = self.outputs = len(known)
        self.train, self.dev = codes[:-HELD_OUT], codes[-HELD_OUT:]

    def batches(self, seed: int) -> Batches:
        generator = torch.Generator().manual_seed(seed)
        while True:
            starts = torch.randint(len(self.train) - LENGTH - 1, (BATCH,), generator=generator)
            yield self.cut(self.train, starts, LENGTH)

    def held_out(self, length: int = LENGTH) -> Batches:
        starts = torch.arange(0, len(self.dev) - length - 1, length)
        for part in starts.split(10 * BATCH):
            yield self.cut(self.dev, part, length)

    def cut(self, codes: Tensor, starts: Tensor, length: int) -> tuple[Tensor, Tensor]:
        rows = codes[starts.unsqueeze(1) + torch.arange(length + 1)]
        return nn.functional.one_hot(rows[:, :-1], self.inputs).float(), rows[:, 1:]

    def error(self, scores: Tensor, targets: Tensor) -> float:
        return float(cross_entropy(scores.flatten(0, 1), targets.flatten())) / math.log(2)


class Pixels:
    """Scans of handwritten digits, pixel by pixel. Errors are the fraction of wrong digits."""

    last = True
    inputs, outputs = 1, 10
    unit = "wrong digits"

    def __init__(self, permuted: bool):
        from sklearn.datasets import load_digits

        self.name = "permuted-pixels" if permuted else "pixels"
        scans, labels = load_digits(return_X_y=True)
        images = torch.tensor(scans, dtype=torch.float32).view(-1, 1, 8, 8) / 16
        pixels = nn.functional.interpolate(images, size=(14, 14), mode="bilinear").flatten(1)
        if permuted:
            pixels = pixels[:, torch.randperm(pixels.shape[1], generator=torch.Generator().manual_seed(0))]
        order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(1))
        self.pixels, self.labels = pixels[order].unsqueeze(2), torch.tensor(labels)[order]
        self.held = len(order) // 5

    def batches(self, seed: int) -> Batches:
        generator = torch.Generator().manual_seed(seed)
        while True:
            rows = torch.randint(self.held, len(self.labels), (BATCH,), generator=generator)
            yield self.pixels[rows], self.labels[rows]

    def held_out(self) -> Batches:
        yield self.pixels[: self.held], self.labels[: self.held]

    def error(self, scores: Tensor, targets: Tensor) -> float:
        return float((scores.argmax(1) != targets).double().mean())


def train(task: Language | Pixels, cell: str, seed: int, updates: int, path: Path) -> None:
    torch.manual_seed(seed)
    network = Network(cell, task.inputs, task.outputs, task.last)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    lines, seconds, losses = [], 0.0, []
    for update, (x, targets) in enumerate(task.batches(seed), 1):
        optimizer.param_groups[0]["lr"] = RATE * (updates + 1 - update) / updates
        began = time.process_time()
        scores = network.train()(x)
        loss = cross_entropy(scores.view(-1, task.outputs), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        seconds += time.process_time() - began
        losses.append(float(loss.detach()))
        if update % EVERY == 0 or update == updates:
            record = {"update": update, "seconds": round(seconds, 1), "loss": statistics.mean(losses[-EVERY:])}
            lines.append(record | {"error": evaluate(network, task.held_out(), task.error)})
            print(path.stem, lines[-1], flush=True)
        if update == updates:
            break
    if isinstance(task, Language):
        longer = {length: evaluate(network, task.held_out(length), task.error) for length in LONGER}
        lines[-1]["longer"] = longer
    with atomic_write(path) as partial:
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines))


@torch.no_grad()
def evaluate(network: Network, batches: Batches, error: Callable[[Tensor, Tensor], float]) -> float:
    """The mean error by population statistics."""
    network.eval()
    errors, sizes = zip(*((error(network(x), targets), len(x)) for x, targets in batches), strict=True)
    return sum(each * size for each, size in zip(errors, sizes, strict=True)) / sum(sizes)


def print_table(results: Path) -> None:
    """The errors of all runs, mean and deviation over seeds, and curves of them by step and by time."""
    runs: dict[str, dict[str, list[list[dict[str, Any]]]]] = {}
    for path in sorted([*results.glob("*.jsonl"), *results.glob("*/metrics.jsonl")]):
        name = path.parent.name if path.name == "metrics.jsonl" else path.stem
        task, cell = name.rsplit(".", 1)[0].split(".", 1)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        runs.setdefault(task, {}).setdefault(cell, []).append(by_step(lines) if name != path.stem else lines)
    if not runs:
        raise InputError(f"{results}: holds no runs; start them first")
    print("| task | cell | seeds | error at the end | best error | longer sequences | seconds |")
    print("|---|---|---|---|---|---|---|")
    for task, cells in runs.items():
        for cell, records in cells.items():
            print(f"| {task} | {cell} | {len(records)} | {row(records)} |")
    names = sorted({cell for cells in runs.values() for cell in cells}, reverse=True)
    figure, axes = subplots(2, len(runs), size=(4.0 * len(runs), 5.0), squeeze=False)
    for column, (task, cells) in enumerate(runs.items()):
        for place, unit in enumerate(("update", "seconds")):
            for cell, records in cells.items():
                for number, record in enumerate(records):
                    steps, errors = [each[unit] for each in record], [each["error"] for each in record]
                    color = f"C{names.index(cell)}"
                    axes[place, column].plot(steps, errors, color=color, label=None if number else cell)
            axes[place, column].set(title=task, xlabel=unit, ylabel="error")
            axes[place, column].legend()
    save_png(figure, results / "curves.png")


def by_step(epochs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The metrics of a training by `ds2 train` as those of this script: the error is WER."""
    seconds = accumulate(epoch["seconds"] for epoch in epochs)
    return [
        {"update": epoch["step"], "seconds": spent, "error": epoch["wer"]}
        for epoch, spent in zip(epochs, seconds, strict=True)
    ]


def row(records: list[list[dict[str, Any]]]) -> str:
    """The columns of a cell's runs."""
    ends = spread([record[-1]["error"] for record in records])
    bests = spread([min(each["error"] for each in record) for record in records])
    longer = {
        length: statistics.mean(record[-1]["longer"][length] for record in records)
        for length in records[0][-1].get("longer", {})
    }
    beyond = ", ".join(f"{length}: {error:.3f}" for length, error in longer.items())
    seconds = statistics.mean(record[-1]["seconds"] for record in records)
    return f"{ends} | {bests} | {beyond} | {seconds:.0f}"


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values) if len(values) > 1 else 0.0:.4f}"


if __name__ == "__main__":
    run_script(main)
