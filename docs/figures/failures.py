"""Draws docs/guides/failures.png: the losses of a training that learns, and of four that do not.

python recipes/digits/prepare.py --output recipes/digits/data
python docs/figures/failures.py                      # some five minutes on two cores
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "recipes" / "digits"
RUNS = {
    "it learns": [],
    "learning rate 30 times too high": ["optimizer.learning_rate=0.06"],
    "learning rate 100 times too low": ["optimizer.learning_rate=2e-5"],
    "transcripts of other recordings": ["data.train=['{wrong}']"],
    "a twentieth of the data": ["data.fraction=0.05", "epochs=40"],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wrong = write_wrong_transcripts(Path(folder))
        figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
        for number, (title, settings) in enumerate(RUNS.items()):
            run = Path(folder) / str(number)
            changes = [part for each in settings for part in ("--set", each.format(wrong=wrong))]
            command = [sys.executable, "-m", "ds2", "train", str(DIGITS / "comparison.toml"), "--output", str(run)]
            subprocess.run([*command, "--set", "epochs=12", *changes], check=False)
            draw(axes, title, run / "metrics.jsonl")
        for side, name in zip(axes, ("training", "dev"), strict=True):
            side.set(title=name, xlabel="share of the epochs", yscale="log")
        axes[0].set_ylabel("CTC loss, nats an utterance")
        axes[1].legend()
        figure.savefig(ROOT / "docs" / "guides" / "failures.png", dpi=110)


def write_wrong_transcripts(folder: Path) -> Path:
    """The training manifest with its texts shuffled."""
    source = DIGITS / "data" / "small.jsonl"
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    texts = [row["text"] for row in rows]
    random.Random(1).shuffle(texts)
    path = folder / "wrong.jsonl"
    places = ({**row, "audio_filepath": str(source.parent / row["audio_filepath"])} for row in rows)
    path.write_text("".join(json.dumps({**row, "text": text}) + "\n" for row, text in zip(places, texts, strict=True)))
    return path


def draw(axes: list[plt.Axes], title: str, metrics: Path) -> None:
    epochs = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    share = [epoch["epoch"] / len(epochs) for epoch in epochs]
    for side, figure in zip(axes, ("loss", "dev_loss"), strict=True):
        side.plot(share, [epoch[figure] for epoch in epochs], label=title, marker=".")


if __name__ == "__main__":
    main()
