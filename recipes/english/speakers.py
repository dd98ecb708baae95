"""Speakers or hours? What a model of a few readers learns from so many hours of so many other people.

    python recipes/english/prepare.py --output readers --librispeech PLACE
    python recipes/english/prepare.py --output people --common-voice PLACE --speechocean762 PLACE
    python recipes/english/lexicon.py CMUDICT readers/train.jsonl people/train.jsonl people/dev.jsonl > lexicon.txt
    python recipes/english/speakers.py readers people lexicon.txt --output runs/speakers [--seeds 1 2 3]

Trains hours.toml on the readers alone, then goes on from there with some hours of 10, 50 and 250 people, drawn anew for
each seed. Each row hears its hours again and again until it has heard four. Phones are those of the people's dev set,
whom no training hears, greedily. Writes speakers.png and prints the table. Finished trainings are not repeated: three
quarters of an hour on a CPU core.
"""

import argparse
import statistics
from pathlib import Path

from ds2.bundle import Bundle
from ds2.cli.recipe_scripts import run_script, train_model
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.split import sample_speakers
from ds2.train.distributed.bench import mean_and_deviation
from ds2.utils.extras import need
from ds2.utils.files import make_folder
from ds2.utils.plots import save_png, subplots

ROWS = {0.08: (10, 50), 0.4: (10, 50, 250)}  # hours in all: numbers of people
READERS = ("epochs=8",)
PEOPLE = ("epochs=2", "sampling.epoch_hours=2", "sortagrad=false", "optimizer.learning_rate=1e-3")
HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", type=Path, help="from prepare.py")
    parser.add_argument("people", type=Path, help="from prepare.py")
    parser.add_argument("lexicon", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    need("matplotlib")
    people, output = arguments.people.absolute(), arguments.output.absolute()
    make_folder(output)
    paths = (f"data.dev='{people}/dev.jsonl'", f"data.lexicon='{arguments.lexicon.absolute()}'")
    texts = f"data.train=['{arguments.readers.absolute()}/train.jsonl']"
    start = train_model(HERE / "hours.toml", output / "readers", [texts, *paths, *READERS])
    print(f"| hours | people | phones wrong |\n|---|---|---|\n| 0 | 0 | {phones_wrong(start):.1%} |", flush=True)
    curves: dict[float, list[tuple[int, float]]] = {hours: [] for hours in ROWS}
    everyone = read_manifest(people / "train.jsonl")
    for hours, number in ((hours, number) for hours, numbers in ROWS.items() for number in numbers):
        rates = []
        for seed in arguments.seeds:
            manifest = output / f"{number}-{hours}.{seed}.jsonl"
            write_manifest(manifest, sample_speakers(everyone, number, hours, seed))
            more = (f"start_from='{start}'", f"seed={seed}", *PEOPLE)
            settings = [f"data.train=['{manifest}']", *paths, *more]
            rates.append(phones_wrong(train_model(HERE / "hours.toml", manifest.with_suffix(""), settings)))
        curves[hours].append((number, statistics.mean(rates)))
        print(f"| {hours} | {number} | {mean_and_deviation(rates, '{:.1%}')} |", flush=True)
    draw(curves, output / "speakers.png")


def phones_wrong(model: Path) -> float:
    """Of the dev set, greedily, as the training has found."""
    return float(Bundle.load(model).training["per"])


def draw(curves: dict[float, list[tuple[int, float]]], picture: Path) -> None:
    figure, axes = subplots(size=(5, 3.5))
    for hours, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{hours} hours")
    axes.set(xscale="log", xlabel="people", ylabel="phones wrong")
    axes.legend()
    save_png(figure, picture)


if __name__ == "__main__":
    run_script(main)
