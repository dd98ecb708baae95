"""The papers' choices, one at a time: the runs of a table as commands, or the table itself and its figure.

    python recipes/ablations/ablations.py manifests                  # speakers held out, and equal hours of the others
    python recipes/ablations/ablations.py commands TABLE RUNS        # one line of arguments of `ds2 train` for each run
    python recipes/ablations/ablations.py table TABLE RUNS [FIGURE]  # of the runs that have ended

TABLE is choices, depth, size, noise or speakers. Each run is base.toml with the settings of its table, of its row and
of a seed. Dev WER is that of the last epoch; the best model is also measured on the noisy dev set that run.sh makes.
"""

import argparse
import json
import shlex
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.split import cut_speakers, sample_speakers
from ds2.recognition.evaluate import evaluate
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder
from ds2.utils.plots import save_png, subplots

BASE = Path(__file__).with_name("base.toml")
DATA = BASE.parents[1] / "digits" / "data"  # from its prepare.py
HELD_OUT = {1: "george", 2: "nicolas", 3: "theo"}  # by seed: the speaker that `speakers` tests
PORTIONS = {  # hours in all: numbers of speakers, and epochs for equally many updates
    0.08: ((1, 2, 5), 30),
    0.16: ((2, 5), 15),
    0.4: ((5,), 6),
}


@dataclass(frozen=True)
class Table:
    """Rows that differ in a few settings."""

    shared: list[str]  # settings of all runs
    rows: dict[str, list[str]]  # name: what differs; SEED stands for the seed
    noisy: bool = True  # whether the noisy dev set is measured as well


FORWARD = "model.bidirectional=false"
ONE_DIMENSION = "model.convolutions=[{channels=86,kernel=[0,11],stride=[1,3]}]"
STRIDE_2 = "model.convolutions=[{channels=16,kernel=[21,9],stride=[3,2]},{channels=16,kernel=[11,5],stride=[2,1]}]"
CHOICES = {  # as many epochs as take the time of the base's six
    "base: GRU, 2-D, both directions, characters, stride 3": [],
    "simple RNN": ["epochs=7", "model.cell=rnn", "model.hidden=188"],
    "LSTM": ["model.cell=lstm", "model.hidden=80"],
    "BN-LSTM": ["epochs=2", "model.cell=bn-lstm", "model.hidden=80"],
    "BN-LSTM, six epochs": ["model.cell=bn-lstm", "model.hidden=80"],
    "1-D convolution": [ONE_DIMENSION],
    "characters, stride 2": ["epochs=5", STRIDE_2],
    "bigrams, stride 3": ["data.units=bigrams", "model.hidden=94"],
    "random walk over frames, radius 3": ["model.random_walk=3"],
    "forward only": ["epochs=7", FORWARD, "model.hidden=148"],
    "forward, row convolution 5": ["epochs=7", FORWARD, "model.hidden=148", "model.lookahead=5"],
    "forward, row convolution 19": ["epochs=7", FORWARD, "model.hidden=146", "model.lookahead=19"],
}
WIDTHS = {1: 288, 2: 188, 3: 151, 4: 130, 5: 116, 6: 106, 7: 98}  # recurrent layers: units, for equal parameters
DS1_LAYERS = "{channels=130,kernel=[0,19],stride=[1,3]}" + 2 * ",{channels=130,kernel=[1,1],stride=[1,1]}"
DS1 = ["model.preset=ds1", f"model.convolutions=[{DS1_LAYERS}]", "model.hidden=130", "model.fully_connected=130"]
DEPTHS = {
    f"{layers} simple RNN, {name}": [f"model.recurrent_layers={layers}", f"model.hidden={width}", setting]
    for layers, width in WIDTHS.items()
    for name, setting in (("BN", "model.batch_norm=true"), ("no BN", "model.batch_norm=false"))
}
SIZES = {  # hidden units of cells with the same number of parameters
    f"{cell}, {thousands},000 parameters": [f"model.cell={cell}", f"model.hidden={hidden}"]
    for thousands, widths in {80: (32, 70), 180: (64, 130), 320: (96, 188), 590: (144, 272)}.items()
    for cell, hidden in zip(("gru", "rnn"), widths, strict=True)
}
NOISE = {f"{share:.0%} of utterances noisy": [f"augment.noise_probability={share}"] for share in (0, 0.2, 0.4, 0.8)}
SPEAKERS = {
    f"{hours:.2f} h of {speakers} speakers": [
        f"epochs={epochs}",
        f'data.train=["../digits/data/speakers/{speakers}-{hours}.SEED.jsonl"]',
    ]
    for hours, (numbers, epochs) in PORTIONS.items()
    for speakers in numbers
}
SHORT = ["data.fraction=0.5", "observe=0"]  # 500 strings, six epochs
TABLES = {
    "choices": Table([], CHOICES, noisy=False),
    "depth": Table([*SHORT, "model.cell=rnn"], {"DS1": [*DS1, "model.recurrent_layers=1"], **DEPTHS}),
    "size": Table(SHORT, SIZES),
    "noise": Table(SHORT, NOISE),
    "speakers": Table(["observe=0", 'data.dev="../digits/data/speakers/dev.SEED.jsonl"'], SPEAKERS, noisy=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["manifests", "commands", "table"])
    parser.add_argument("table", choices=TABLES, nargs="?", default="choices")
    parser.add_argument("runs", type=Path, nargs="?", default=Path(__file__).parent / "runs")
    parser.add_argument("figure", type=Path, nargs="?")
    arguments = parser.parse_args()
    if arguments.action == "manifests":
        write_speakers(DATA)
    elif arguments.action == "commands":
        for line in commands(TABLES[arguments.table], arguments.runs / arguments.table):
            print(line)
    else:
        print_table(TABLES[arguments.table], arguments.runs / arguments.table, arguments.figure)


def write_speakers(data: Path) -> None:
    """For each seed a dev set of a speaker whom its training sets, of equal hours of so many others, lack."""
    make_folder(data / "speakers")
    for seed, speaker in HELD_OUT.items():
        others, _ = cut_speakers(read_manifest(data / "small.jsonl"), {speaker})
        own = [cut_speakers(read_manifest(data / f"{split}.jsonl"), {speaker})[1] for split in ("dev", "test")]
        write_manifest(data / "speakers" / f"dev.{seed}.jsonl", [*own[0], *own[1]])
        for hours, (numbers, _) in PORTIONS.items():
            for speakers in numbers:
                drawn = sample_speakers(others, speakers, hours, seed)
                write_manifest(data / "speakers" / f"{speakers}-{hours}.{seed}.jsonl", drawn)


def commands(table: Table, runs: Path) -> list[str]:
    lines = []
    for seed in HELD_OUT:
        for name, changes in table.rows.items():
            settings = [f"seed={seed}", *table.shared, *changes]
            words = [word for each in settings for word in ("--set", each.replace("SEED", str(seed)))]
            lines.append(shlex.join(["--output", str(runs / folder(name, seed)), *words]))
    return lines


def folder(name: str, seed: int) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name) + f".{seed}"


def print_table(table: Table, runs: Path, path: Path | None) -> None:
    """Means and deviations over the seeds; `seconds` are those of the fastest one, the least disturbed."""
    columns = ["seeds", "epochs", "seconds", "loss", "dev loss", "dev WER", *["noisy dev WER"] * table.noisy]
    print(f"| | {' | '.join(columns)} |\n|" + "---|" * (1 + len(columns)))
    rates = {}
    for name, changes in table.rows.items():
        histories = {run: read_history(run) for run in (runs / folder(name, seed) for seed in HELD_OUT)}
        whole = epochs_of([*table.shared, *changes])
        ended = {run: record for run, record in histories.items() if len(record) == whole}
        if not ended:
            continue
        records = list(ended.values())
        rates[name] = [record[-1]["wer"] for record in records]
        seconds = min(sum(epoch["seconds"] for epoch in record) for record in records)
        losses = (statistics.mean(record[-1][key] for record in records) for key in ("loss", "dev_loss"))
        row = [str(len(ended)), str(len(records[0])), f"{seconds:.0f}", *map("{:.2f}".format, losses)]
        row += [spread(rates[name])]
        if table.noisy:
            row.append(spread([noisy_rate(run) for run in ended]))
        print(f"| {name} | {' | '.join(row)} |", flush=True)
    if not rates:
        raise InputError(f"{runs}: no run has ended; start them first")
    if path is not None:
        draw(rates, path)


def read_history(run: Path) -> list[dict]:
    """An epoch a line; none yet where the first one has not ended."""
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def epochs_of(settings: Sequence[str]) -> int:
    """Of a run with these settings."""
    base = tomllib.loads(BASE.read_text())["epochs"]
    return int([base, *(each.removeprefix("epochs=") for each in settings if each.startswith("epochs="))][-1])


def noisy_rate(run: Path) -> float:
    """The words of the noisy dev set that the run's best model gets wrong, greedily; measured once."""
    kept = run / "noisy.json"
    if not kept.exists():
        recognizer = Recognizer.load(run / "best.safetensors", options=DecoderOptions(beam=0))
        counts = evaluate(recognizer, read_manifest(DATA / "noisy" / "manifest.jsonl")).words
        with atomic_write(kept) as partial:
            partial.write_text(json.dumps(counts.rate))
    return float(json.loads(kept.read_text()))


def spread(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.2%}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2%}{deviation}"


def draw(rates: dict[str, list[float]], path: Path) -> None:
    """A bar for the mean of each variant, a dot for each seed."""
    figure, axes = subplots(size=(9, 1 + 0.3 * len(rates)))
    for place, values in enumerate(rates.values()):
        percent = [100 * value for value in values]
        axes.barh(place, statistics.mean(percent), color="tab:gray" if place == 0 else "tab:blue", alpha=0.5)
        axes.plot(percent, [place] * len(percent), "k.")
    axes.set_yticks(range(len(rates)), [name.partition(":")[0] for name in rates])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("dev WER, %, greedy")
    axes.grid(axis="x", alpha=0.3)
    save_png(figure, path, dpi=110)


if __name__ == "__main__":
    run_script(main)
