"""What `ds2 adapt` brings: a model that learns from recordings without texts understands more of them.

    python benchmarks/adapt.py MANIFEST --output FOLDER [--model english] [--set SECTION.KEY=VALUE ...]

For each speaker of the manifest who speaks for two minutes or more, the model adapts to the recordings, without their
texts. The same recordings are transcribed by the model before and after, and the texts count the errors. The speakers
are to be strangers to the model. The same command continues a run that was stopped.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts
from ds2.recognition.evaluate import evaluate
from ds2.recognition.recognizer import Recognizer

LEAST_MINUTES = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", default="english")
    parser.add_argument("--set", nargs="+", default=[])
    arguments = parser.parse_args()
    groups: dict[str, list[Utterance]] = {}
    for each in read_manifest(arguments.manifest):
        groups.setdefault(each.speaker or "unknown", []).append(each)
    groups = {name: utterances for name, utterances in groups.items() if minutes(utterances) >= LEAST_MINUTES}
    print("| speaker | minutes | words | WER before | after |\n|---|---|---|---|---|", flush=True)
    before = after = ErrorCounts()
    for name, utterances in groups.items():
        adapted = adapt(arguments.model, utterances, arguments.output / name, arguments.set)
        errors = [word_errors(model, utterances) for model in (arguments.model, adapted)]
        before, after = before + errors[0], after + errors[1]
        print(row(name, minutes(utterances), *errors), flush=True)
    print(row("all", sum(map(minutes, groups.values())), before, after))


def adapt(model: str, utterances: Sequence[Utterance], folder: Path, settings: Sequence[str]) -> Path:
    """The bundle that `ds2 adapt` makes of the model."""
    command = [sys.executable, "-m", "ds2", "adapt", *(str(each.audio_path) for each in utterances), "--model", model]
    words = [word for setting in settings for word in ("--set", setting)]
    subprocess.run([*command, "--output", str(folder), *words], check=True, stdout=subprocess.DEVNULL)
    return folder / "fine-tuned.safetensors"


def word_errors(model: str | Path, utterances: Sequence[Utterance]) -> ErrorCounts:
    """Word errors of a model with its own search."""
    return evaluate(Recognizer.load(model), utterances).words


def minutes(utterances: Sequence[Utterance]) -> float:
    """Minutes of sound."""
    return sum(each.duration for each in utterances) / 60


def row(name: str, minutes: float, before: ErrorCounts, after: ErrorCounts) -> str:
    """A line of the table."""
    return f"| {name} | {minutes:.1f} | {before.reference_length} | {before.rate:.2%} | {after.rate:.2%} |"


if __name__ == "__main__":
    main()
