"""Kills a training at random moments, and compares its weights with those of one that nobody killed.

    python benchmarks/kill_training.py [--kills 50] [--seed 0]

Half of the kills come while a checkpoint is being written, the others at any moment. After each kill the same command
goes on; a training that has come to its end is compared, and another begins. Each is `ds2 train` in a process that is
forked after the imports, so that kills hit the training. Prints a table. The exit code is 1 if a training failed, or if
a byte of its weights is another.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from ds2.bundle import Bundle
from ds2.cli.main import main
from ds2.train.checkpoint import load_checkpoint

AUDIO = Path(__file__).parents[1] / "recipes" / "digits" / "audio"
PRELOADED = ("ds2.train.trainer", "matplotlib.backends.backend_agg", "torch.utils.tensorboard")  # once for all forks
RECORDINGS = 12
WRITING_SECONDS = 0.004  # of a checkpoint, about: a kill comes within it
CONFIG = """
epochs = 3
batch_size = 2
checkpoint_minutes = 1e-6  # a checkpoint after each update
observe = 0
[data]
train = ["data.jsonl"]
dev = "data.jsonl"
workers = 0
[model]
hidden = 24
recurrent_layers = 2
dropout = 0.1
convolutions = [{channels = 4, kernel = [11, 5], stride = [2, 2]}]
[model.frontend]
sample_rate = 8000
[augment]
noise_probability = 0.5
[optimizer]
name = "adamw"
learning_rate = 5e-3
"""


class Training:
    """One folder, and the processes that train into it one after the other."""

    def __init__(self, config: Path, folder: Path):
        self.arguments = ["train", str(config), "--output", str(folder)]
        self.folder = folder

    def start(self) -> multiprocessing.Process:
        process = multiprocessing.get_context("fork").Process(target=self._train)
        process.start()
        return process  # type: ignore[return-value]

    def ended(self) -> bool:
        """Trains without a kill; whether that went well."""
        process = self.start()
        process.join()
        return process.exitcode == 0

    def _train(self) -> None:
        torch.set_num_threads(1)
        log = os.open(self.folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        os._exit(main(self.arguments))

    def weights(self) -> dict[str, bytes]:
        """The bytes of all tensors of the model that a resumed run would continue from, and of the best one."""
        last = load_checkpoint(self.folder / "checkpoint.pt")["replicas"][0]["model"]
        tensors = {f"last {name}": tensor for name, tensor in last.items()}
        best = Bundle.load(self.folder / "best.safetensors").weights
        tensors |= {f"best {name}": tensor for name, tensor in best.items()}
        return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def prepare(folder: Path) -> Path:
    """A small training of real recordings; its configuration."""
    rows = [json.loads(line) for line in (AUDIO / "utterances.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["audio_filepath"] == "fsdd_theo_test.flac"][:RECORDINGS]
    lines = [json.dumps(row | {"audio_filepath": str(AUDIO / row["audio_filepath"])}) for row in rows]
    (folder / "data.jsonl").write_text("\n".join(lines))
    (folder / "train.toml").write_text(CONFIG)
    return folder / "train.toml"


def kill(training: Training, while_writing: bool, seconds: float, rng: random.Random) -> str:
    """Starts the training and kills it, within `seconds` or while it writes a checkpoint; how that went."""
    process = training.start()
    partial = training.folder / ".checkpoint.pt.partial"
    until = time.monotonic() + rng.uniform(0, seconds)
    while process.is_alive() and time.monotonic() < until:
        time.sleep(0.001)
    while while_writing and process.is_alive() and not partial.exists():
        pass
    if while_writing:
        time.sleep(rng.uniform(0, WRITING_SECONDS))
    half_written = partial.exists()
    process.kill()
    process.join()
    if process.exitcode == 0:
        return "ended before the kill"
    if process.exitcode != -signal.SIGKILL:
        return f"FAILED: {training.folder.with_suffix('.log').read_text().strip().splitlines()[-1]}"
    return "killed while it wrote a checkpoint" if half_written else "killed at another moment"


def run(folder: Path, kills: int, rng: random.Random) -> Counter[str]:
    """How often each thing happened."""
    config = prepare(folder)
    for name in ("first", "whole"):  # the first may have to compile kernels, the second gives the time
        began, whole = time.monotonic(), Training(config, folder / name)
        if not whole.ended():
            raise SystemExit("the training fails without a kill")
    seconds, expected = time.monotonic() - began, whole.weights()
    counts: Counter[str] = Counter()
    number, training = 0, Training(config, folder / "0")
    while sum(count for name, count in counts.items() if name.startswith("killed")) < kills:
        outcome = kill(training, rng.random() < 0.5, seconds, rng)
        counts[outcome] += 1
        print(f"training {number}: {outcome}", file=sys.stderr, flush=True)
        if outcome == "ended before the kill":
            compare(training, expected, counts)
            number += 1
            training = Training(config, folder / str(number))
    if training.ended():
        compare(training, expected, counts)
    else:
        counts["FAILED: the last of a training"] += 1
    return counts


def compare(training: Training, expected: dict[str, bytes], counts: Counter[str]) -> None:
    same = training.weights() == expected
    counts["trainings with the same bytes" if same else "DIFFERS: a training"] += 1


def measure() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for module in PRELOADED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as folder:
        counts = run(Path(folder), arguments.kills, random.Random(arguments.seed))
    print("| | |\n|---|---|")
    for name, count in sorted(counts.items()):
        print(f"| {name} | {count} |")
    raise SystemExit(any(name.split(":")[0].isupper() for name in counts))


if __name__ == "__main__":
    measure()
