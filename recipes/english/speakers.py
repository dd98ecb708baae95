"""Speakers or hours? What a model of a few readers learns from so many hours of so many other people.

    python recipes/english/prepare.py --output readers --librispeech PLACE
    python recipes/english/prepare.py --output people --common-voice PLACE --speechocean762 PLACE
    python recipes/english/lexicon.py CMUDICT readers/train.jsonl people/train.jsonl people/dev.jsonl > lexicon.txt
    python recipes/english/speakers.py readers people lexicon.txt --output runs/speakers [--seeds 1 2 3]

Trains hours.toml on the readers alone, then goes on from there with some hours of 10, 50 and 250 people, drawn anew for
each seed. Each row hears its hours again and again until it has heard four. Words are those of the people's dev sets,
whom no training hears, with the language model and the pronunciations of a bundle (--search). Writes speakers.png and
prints the table. What is finished is not repeated: two hours on a CPU core.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from hours import HERE, searching, words_wrong

from ds2.bundle import Bundle
from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.split import sample_speakers
from ds2.metrics import ErrorCounts
from ds2.utils.files import make_folder, write_text
from ds2.utils.plots import save_png, subplots

ROWS = {0.08: (10, 50), 0.4: (10, 50, 250)}  # hours in all: numbers of people
READERS = ("epochs=8",)
PEOPLE = ("epochs=2", "sampling.epoch_hours=2", "sortagrad=false", "optimizer.learning_rate=1e-3")
SETS = ("common-voice", "speechocean762")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", type=Path, help="from prepare.py")
    parser.add_argument("people", type=Path, help="from prepare.py")
    parser.add_argument("lexicon", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--search", default="english", help="a bundle: a path, or the name of one in the package")
    arguments = parser.parse_args()
    search = Bundle.load(arguments.search)
    people, output = arguments.people.absolute(), arguments.output.absolute()
    make_folder(output)
    sets = {name: read_manifest(people / f"dev-{name}.jsonl") for name in SETS}
    paths = (f"data.dev='{people}/dev.jsonl'", f"data.lexicon='{arguments.lexicon.absolute()}'")

    def wrong(model: Path) -> float:
        known = model.with_name("words_wrong.txt")
        if not known.exists():
            searched = searching(model, search, sets)
            write_text(known, str(sum((words_wrong(searched, part) for part in sets.values()), ErrorCounts()).rate))
        return float(known.read_text())

    start = train(output / "readers", arguments.readers.absolute() / "train.jsonl", *paths, *READERS)
    print(f"| hours | people | words wrong |\n|---|---|---|\n| 0 | 0 | {wrong(start):.1%} |", flush=True)
    curves: dict[float, list[tuple[int, float]]] = {hours: [] for hours in ROWS}
    everyone = read_manifest(people / "train.jsonl")
    for hours, number in ((hours, number) for hours, numbers in ROWS.items() for number in numbers):
        rates = []
        for seed in arguments.seeds:
            manifest = output / f"{number}-{hours}.{seed}.jsonl"
            write_manifest(manifest, sample_speakers(everyone, number, hours, seed))
            more = (f"start_from='{start}'", f"seed={seed}", *PEOPLE)
            rates.append(wrong(train(manifest.with_suffix(""), manifest, *paths, *more)))
        spread = f" ± {statistics.stdev(rates):.1%}" if len(rates) > 1 else ""
        curves[hours].append((number, statistics.mean(rates)))
        print(f"| {hours} | {number} | {statistics.mean(rates):.1%}{spread} |", flush=True)
    draw(curves, output / "speakers.png")


def train(folder: Path, manifest: Path, *settings: str) -> Path:
    """Trains, or continues to, and returns the best bundle."""
    command = [sys.executable, "-m", "ds2", "train", str(HERE / "hours.toml"), "--output", str(folder)]
    command += [part for setting in (f"data.train=['{manifest}']", *settings) for part in ("--set", setting)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "best.safetensors"


def draw(curves: dict[float, list[tuple[int, float]]], picture: Path) -> None:
    figure, axes = subplots(size=(5, 3.5))
    for hours, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{hours} hours")
    axes.set(xscale="log", xlabel="people", ylabel="words wrong")
    axes.legend()
    save_png(figure, picture)


if __name__ == "__main__":
    run_script(main)
