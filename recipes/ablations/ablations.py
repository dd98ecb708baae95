"""The paper's choices of architecture, one at a time: the commands of all runs, or their table and figure.

    python recipes/ablations/ablations.py commands RUNS    # one line of arguments of `ds2 train` for each run
    python recipes/ablations/ablations.py table RUNS FIGURE

Every variant has as many parameters as the base, within 2 %, by a different `hidden`. The base trains for six epochs,
the others for as many as fit into the same time.
"""

import json
import statistics
import sys
from pathlib import Path

from ds2.utils.plots import save_png, subplots

SEEDS = (1, 2, 3)
FORWARD = "model.bidirectional=false"
ONE_DIMENSION = "model.convolutions=[{channels=86,kernel=[0,11],stride=[1,3]}]"
STRIDE_2 = "model.convolutions=[{channels=16,kernel=[21,9],stride=[3,2]},{channels=16,kernel=[11,5],stride=[2,1]}]"
VARIANTS = {  # name: epochs that take the time of the base's six, what differs
    "base: GRU, 2-D, both directions, characters, stride 3": (6, []),
    "simple RNN": (7, ["model.cell=rnn", "model.hidden=188"]),
    "LSTM": (6, ["model.cell=lstm", "model.hidden=80"]),
    "BN-LSTM": (2, ["model.cell=bn-lstm", "model.hidden=80"]),
    "BN-LSTM, six epochs": (6, ["model.cell=bn-lstm", "model.hidden=80"]),
    "1-D convolution": (6, [ONE_DIMENSION]),
    "characters, stride 2": (5, [STRIDE_2]),
    "bigrams, stride 3": (6, ["data.units=bigrams", "model.hidden=94"]),
    "random walk over frames, radius 3": (6, ["model.random_walk=3"]),
    "forward only": (7, [FORWARD, "model.hidden=148"]),
    "forward, row convolution 5": (7, [FORWARD, "model.hidden=148", "model.lookahead=5"]),
    "forward, row convolution 19": (7, [FORWARD, "model.hidden=146", "model.lookahead=19"]),
}


def folder(name: str, seed: int) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name) + f".{seed}"


def print_commands(runs: str) -> None:
    for seed in SEEDS:
        for name, (epochs, changes) in VARIANTS.items():
            settings = [f"seed={seed}", f"epochs={epochs}", *changes]
            print(f"--output {runs}/{folder(name, seed)}", *(f"--set {setting}" for setting in settings))


def print_table(runs: Path, path: Path) -> None:
    print("| variant | epochs | seconds | dev loss | dev WER, mean ± deviation |\n|---|---|---|---|---|")
    rates = {}
    for name, (epochs, _) in VARIANTS.items():
        records = [read_history(run) for seed in SEEDS if (run := runs / folder(name, seed)).exists()]
        seconds = min(sum(epoch["seconds"] for epoch in record) for record in records)  # the least disturbed
        loss = statistics.mean(record[-1]["dev_loss"] for record in records)
        rates[name] = [record[-1]["wer"] for record in records]
        mean = statistics.mean(rates[name])
        deviation = f"± {statistics.stdev(rates[name]):.2%}" if len(records) > 1 else "(one seed)"
        print(f"| {name} | {epochs} | {seconds:.0f} | {loss:.2f} | {mean:.2%} {deviation} |")
    draw(rates, path)


def draw(rates: dict[str, list[float]], path: Path) -> None:
    """A bar for the mean of each variant, a dot for each seed."""
    figure, axes = subplots(size=(9, 4.5))
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


def read_history(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


if __name__ == "__main__":
    if sys.argv[1] == "commands":
        print_commands(sys.argv[2])
    else:
        print_table(Path(sys.argv[2]), Path(sys.argv[3]))
