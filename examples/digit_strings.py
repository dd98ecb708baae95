"""Composes strings of digits, each of one speaker, from the recordings of recipes/digits: data to try things with.

    python examples/digit_strings.py [FOLDER] [--speaker nicolas] [--takes 0 10] [--count 60] [--pitch 1.45]

Writes FOLDER/00000.flac and so on, and the manifest FOLDER.jsonl; without a folder it only says what it would write.
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np
import soxr

from ds2.audio.files import read_audio_array
from ds2.curation.connected_words import WordString, WordStringConfig, make_strings, write_strings

AUDIO = Path(__file__).parents[1] / "recipes" / "digits" / "audio"
RATE = 8000  # Hz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--speaker", help="one of george, jackson, lucas, nicolas, theo, yweweler; by default all six")
    parser.add_argument("--takes", nargs=2, type=int, default=(0, 10), help="of 50; digits has learnt from 10 to 49")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--words", nargs=2, type=int, default=(1, 7), help="in a string, at the least and at the most")
    parser.add_argument("--pitch", type=float, default=1.0, help="1.45: like a child; the tempo changes as well")
    asked = parser.parse_args()
    config = WordStringConfig(words=tuple(asked.words))
    words = read_words(asked.speaker, range(*asked.takes), asked.pitch)
    strings = make_strings(words, asked.count, config, RATE, random.Random(1))
    minutes = sum(len(string.samples) for string in strings) / RATE / 60
    if asked.folder is not None:
        write_strings(asked.folder.parent, asked.folder.name, strings, RATE)
    print(f"{len(strings)} strings, {minutes:.1f} minutes")


def read_words(speaker: str | None, takes: range, pitch: float) -> list[WordString]:
    """The recorded digits of one speaker or of all, spoken by a voice so many times as high."""
    rows = [json.loads(line) for line in (AUDIO / "utterances.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["source"] == "fsdd" and row["take"] in takes]
    rows = [row for row in rows if speaker in (None, row["speaker"])]
    recordings = {name: read_audio_array(AUDIO / name, RATE)[0] for name in {row["audio_filepath"] for row in rows}}
    return [WordString(higher(cut(row, recordings), pitch), row["text"], row["speaker"]) for row in rows]


def cut(row: dict, recordings: dict[str, np.ndarray]) -> np.ndarray:
    """(N,) samples of a row's digit."""
    start = round(row["offset"] * RATE)
    return recordings[row["audio_filepath"]][start : start + round(row["duration"] * RATE)]


def higher(samples: np.ndarray, pitch: float) -> np.ndarray:
    """(N,) samples -> (N / pitch,), as a tape that runs faster."""
    return samples if pitch == 1.0 else soxr.resample(samples, RATE * pitch, RATE)


if __name__ == "__main__":
    main()
