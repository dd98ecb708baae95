"""The table and the figure of compare.sh: python recipes/digits/compare.py RUNS FIGURE"""

import json
import statistics
import sys
from pathlib import Path

from ds2.train.curves import draw_curves

SETTINGS = {
    "SortaGrad, BN": "sortagrad=true,norm=true",
    "random order, BN": "sortagrad=false,norm=true",
    "SortaGrad, no BN": "sortagrad=true,norm=false",
    "random order, no BN": "sortagrad=false,norm=false",
}
FIGURES = ("loss", "dev_loss", "wer")


def mean_of_seeds(runs: Path, setting: str) -> list[dict]:
    """Epoch by epoch: the mean of each value over the seeds, and the deviation of the WER."""
    seeds = [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(runs.glob(f"{setting},seed=*/metrics.jsonl"))
    ]
    history = []
    for epochs in zip(*seeds, strict=True):
        means = {name: statistics.mean(epoch[name] for epoch in epochs) for name in FIGURES}
        deviation = statistics.stdev(epoch["wer"] for epoch in epochs)
        history.append({"epoch": epochs[0]["epoch"], **means, "deviation": deviation})
    return history


def main() -> None:
    runs, figure = map(Path, sys.argv[1:])
    histories = {name: mean_of_seeds(runs, setting) for name, setting in SETTINGS.items()}
    draw_curves(figure, histories)
    print("| epoch | " + " | ".join(histories) + " |")
    print("|---" * (len(histories) + 1) + "|")
    for row in zip(*histories.values(), strict=True):
        cells = [
            f"{epoch['loss']:.1f} / {epoch['dev_loss']:.1f} / {epoch['wer']:.1%} ± {epoch['deviation']:.1%}"
            for epoch in row
        ]
        print(f"| {row[0]['epoch']} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
