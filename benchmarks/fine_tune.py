"""What fine-tuning on a few minutes of one speaker brings.

    python benchmarks/fine_tune.py MANIFEST --speaker NAME --output FOLDER [--folds 5] [--model english]

Cross-validation over the utterances of one speaker whom the model has not heard: in each fold `ds2 train --fine-tune`
learns from the others, and the fold is transcribed by the model before and after. The same command continues a run
that was stopped.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts
from ds2.recognition.evaluate import evaluate
from ds2.recognition.recognizer import Recognizer
from ds2.utils.files import make_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--speaker", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--model", default="english")
    arguments = parser.parse_args()
    utterances = [each for each in read_manifest(arguments.manifest) if each.speaker == arguments.speaker]
    before = after = ErrorCounts()
    for fold in range(arguments.folds):
        test = utterances[fold :: arguments.folds]
        train = [each for number, each in enumerate(utterances) if number % arguments.folds != fold]
        tuned = fine_tuned(arguments.model, train, arguments.output / f"fold{fold}")
        before += errors(arguments.model, test)
        after += errors(tuned, test)
        print(f"fold {fold}: {minutes(train):.1f} min to learn from, {minutes(test):.1f} min to test; so far ", end="")
        print(f"WER {before.rate:.1%} before, {after.rate:.1%} after ({after.reference_length} words)", flush=True)


def fine_tuned(model: str, utterances: Sequence[Utterance], folder: Path) -> Path:
    """The bundle that `ds2 train --fine-tune` makes of the model."""
    make_folder(folder)
    write_manifest(folder / "mine.jsonl", utterances)
    command = [sys.executable, "-m", "ds2", "train", "--fine-tune", model, str(folder / "mine.jsonl")]
    subprocess.run([*command, "--output", str(folder / "run")], check=True)
    return folder / "run" / "fine-tuned.safetensors"


def errors(model: str | Path, utterances: Sequence[Utterance]) -> ErrorCounts:
    """Word errors of a model with its own search."""
    return evaluate(Recognizer.load(model), utterances).words


def minutes(utterances: Sequence[Utterance]) -> float:
    """Minutes of sound."""
    return sum(each.duration for each in utterances) / 60


if __name__ == "__main__":
    main()
