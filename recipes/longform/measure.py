"""How well alignment finds the known joins of recordings from prepare.py.

    python recipes/longform/measure.py data/longform [--model runs/english/best.safetensors]

At a join the last word of one utterance must end and the first word of the next begin: the error is how far either
word reaches into the other utterance.
"""

import argparse
import itertools
import json
import statistics
from pathlib import Path

from ds2.cli.recipe_scripts import run_script
from ds2.recognition.align import align
from ds2.recognition.recognizer import Recognizer
from ds2.text import normalize, split_words
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines, read_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="english", help="a bundle, by default the English one of the package")
    arguments = parser.parse_args()
    recognizer = Recognizer.load(arguments.model)
    rows = [json.loads(line) for _, line in numbered_lines(arguments.folder / "joins.jsonl")]
    everything: list[float] = []
    print("| recording | minutes | joins | within 0.1 s | within 0.5 s | worst, s |\n|---|---|---|---|---|---|")
    for name, group in itertools.groupby(rows, key=lambda row: row["name"]):
        audio = arguments.folder / "joined" / name
        own = list(group)
        try:
            errors = join_errors(recognizer, audio, own)
        except InputError as error:
            print(f"| {name} | {own[-1]['end'] / 60:.1f} | {len(own)} | {error} |")
            continue
        everything += errors
        print(f"| {name} | {own[-1]['end'] / 60:.1f} | {figures(errors)} |", flush=True)
    if everything:
        print(f"| all | {minutes(rows):.1f} | {figures(everything)} |")
        print(f"median {1000 * statistics.median(everything):.0f} ms")


def join_errors(recognizer: Recognizer, audio: Path, rows: list[dict]) -> list[float]:
    """Seconds by which the words of each utterance lie outside of it."""
    found = align(recognizer, audio, read_text(audio.with_suffix(".txt"))).transcript.words
    errors, first = [], 0
    for row in rows:
        count = len(split_words(normalize(row["text"])))
        own, first = found[first : first + count], first + count
        if own:
            errors.append(max(0.0, row["start"] - own[0].start, own[-1].end - row["end"]))
    return errors


def figures(errors: list[float]) -> str:
    near, nearer = (sum(error <= limit for error in errors) / len(errors) for limit in (0.5, 0.1))
    return f"{len(errors)} | {nearer:.1%} | {near:.1%} | {max(errors):.2f}"


def minutes(rows: list[dict]) -> float:
    ends: dict[str, float] = {}
    for row in rows:
        ends[row["name"]] = row["end"]
    return sum(ends.values()) / 60


if __name__ == "__main__":
    run_script(main)
