"""Composes connected digits, strings of 1 to 7 words of one speaker, from the recordings in `audio/`.

    python recipes/digits/prepare.py --output data/digits [--hold-out theo] [--trained-readers none]

Writes train, dev, test and strangers manifests with their audio:
    train      FSDD takes 10-49, synthesised strings, and strings read by half of the speechocean762 speakers
    dev        FSDD takes 5-9
    test       FSDD takes 0-4, the data set's official split; at least 1,000 words
    strangers  digit strings read by the other speechocean762 speakers, as they were recorded
    small      1,000 of the composed training strings, for comparisons
With --hold-out one FSDD speaker is in test alone, with all takes, and in neither train nor dev.
"""

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ds2.audio.tensors import read_audio
from ds2.cli.recipe_scripts import run_script
from ds2.curation.connected_words import WordString, WordStringConfig, make_strings, write_strings

AUDIO = Path(__file__).parent / "audio"
RATE = 8000  # Hz: that of FSDD, and enough for digits over any telephone
TAKES = {"test": range(0, 5), "dev": range(5, 10), "train": range(10, 50)}
STRINGS = {"test": 300, "dev": 300, "train": 3600}
SMALL = 1000  # strings of the training set for comparisons
READ_COPIES = 40  # of each string read by a training speaker: augmentation makes every copy another one
SYNTHETIC_COPIES = 3
STYLE = {"test": WordStringConfig(), "dev": WordStringConfig(), "train": WordStringConfig(pause=(-0.06, 0.25))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--hold-out", metavar="SPEAKER", help="an FSDD speaker to be tested on and never trained on")
    parser.add_argument("--trained-readers", choices=("half", "none"), default="half", help="of speechocean762")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    rows = read_rows()
    recordings = {name: read_audio(AUDIO / name, RATE)[0].numpy() for name in {row["audio_filepath"] for row in rows}}

    digits = [row for row in rows if row["source"] == "fsdd"]
    known = [row for row in digits if row["speaker"] != arguments.hold_out]
    splits = {
        split: strings(cut_words(known, recordings, lambda row, takes=takes: row["take"] in takes), split, rng)
        for split, takes in TAKES.items()
    }
    if arguments.hold_out:
        held_out = cut_words(digits, recordings, lambda row: row["speaker"] == arguments.hold_out)
        splits["test"] = strings(held_out, "test", rng)
    splits["small"] = splits["train"][:SMALL]
    read = [row for row in rows if row["source"] == "speechocean762"]
    strangers = stranger_speakers(rows, arguments.trained_readers)
    splits["strangers"] = cut_words(read, recordings, lambda row: row["speaker"] in strangers)
    splits["train"] += cut_words(read, recordings, lambda row: row["speaker"] not in strangers) * READ_COPIES
    splits["train"] += cut_words(rows, recordings, lambda row: row["source"] == "synthetic") * SYNTHETIC_COPIES
    for split, composed in splits.items():
        write(arguments.output, split, composed)


def read_rows() -> list[dict]:
    return [json.loads(line) for line in (AUDIO / "utterances.jsonl").read_text().splitlines()]


def stranger_speakers(rows: list[dict], trained: str = "half") -> set[str]:
    """Every other speaker of speechocean762 is a stranger to training, or all of them."""
    speakers = sorted({row["speaker"] for row in rows if row["source"] == "speechocean762"})
    return set(speakers[1::2] if trained == "half" else speakers)


def cut_words(rows: list[dict], recordings: dict[str, np.ndarray], wanted: Callable[[dict], bool]) -> list[WordString]:
    return [WordString(cut(row, recordings), row["text"], row["speaker"]) for row in rows if wanted(row)]


def cut(row: dict, recordings: dict[str, np.ndarray]) -> np.ndarray:
    recording = recordings[row["audio_filepath"]]
    if "offset" not in row:
        return recording
    start = round(row["offset"] * RATE)
    return recording[start : start + round(row["duration"] * RATE)]


def strings(words: list[WordString], split: str, rng: random.Random) -> list[WordString]:
    return make_strings(words, STRINGS[split], STYLE[split], RATE, rng)


def write(output: Path, split: str, composed: list[WordString]) -> None:
    utterances = write_strings(output, split, composed, RATE)
    words = sum(len(utterance.text.split()) for utterance in utterances)
    hours = sum(utterance.duration for utterance in utterances) / 3600
    print(f"{split}: {len(utterances)} strings, {words} words, {hours:.2f} h")


if __name__ == "__main__":
    run_script(main)
