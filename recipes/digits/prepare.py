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
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile

from ds2.data.audio import read_audio
from ds2.data.manifest import Utterance, write_manifest

AUDIO = Path(__file__).parent / "audio"
RATE = 8000  # Hz: that of FSDD, and enough for digits over any telephone
TAKES = {"test": range(0, 5), "dev": range(5, 10), "train": range(10, 50)}
STRINGS = {"test": 300, "dev": 300, "train": 3600}
SMALL = 1000  # strings of the training set for comparisons
WORDS = (1, 7)  # in a string, at the least and at the most
READ_COPIES = 40  # of each string read by a training speaker: augmentation makes every copy another one
SYNTHETIC_COPIES = 3
EDGE = (0.0, 0.35)  # seconds of silence before and after a string
PAUSE = {"test": (0.0, 0.25), "dev": (0.0, 0.25), "train": (-0.06, 0.25)}  # seconds between words; < 0: overlap
LEVEL = (-3.0, 3.0)  # dB between the words of a string

Piece = tuple[np.ndarray, str, str]  # samples, text, speaker


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
        split: compose(pieces(known, recordings, lambda row, takes=takes: row["take"] in takes), split, rng)
        for split, takes in TAKES.items()
    }
    if arguments.hold_out:
        held_out = pieces(digits, recordings, lambda row: row["speaker"] == arguments.hold_out)
        splits["test"] = compose(held_out, "test", rng)
    splits["small"] = splits["train"][:SMALL]
    read = [row for row in rows if row["source"] == "speechocean762"]
    strangers = stranger_speakers(rows, arguments.trained_readers)
    splits["strangers"] = pieces(read, recordings, lambda row: row["speaker"] in strangers)
    splits["train"] += pieces(read, recordings, lambda row: row["speaker"] not in strangers) * READ_COPIES
    splits["train"] += pieces(rows, recordings, lambda row: row["source"] == "synthetic") * SYNTHETIC_COPIES
    for split, strings in splits.items():
        write(arguments.output, split, strings)


def read_rows() -> list[dict]:
    return [json.loads(line) for line in (AUDIO / "pieces.jsonl").read_text().splitlines()]


def stranger_speakers(rows: list[dict], trained: str = "half") -> set[str]:
    """Every other speaker of speechocean762 is a stranger to training, or all of them."""
    speakers = sorted({row["speaker"] for row in rows if row["source"] == "speechocean762"})
    return set(speakers[1::2] if trained == "half" else speakers)


def pieces(rows: list[dict], recordings: dict[str, np.ndarray], wanted: Callable[[dict], bool]) -> list[Piece]:
    return [(cut(row, recordings), row["text"], row["speaker"]) for row in rows if wanted(row)]


def cut(row: dict, recordings: dict[str, np.ndarray]) -> np.ndarray:
    recording = recordings[row["audio_filepath"]]
    if "offset" not in row:
        return recording
    start = round(row["offset"] * RATE)
    return recording[start : start + round(row["duration"] * RATE)]


def compose(words: list[Piece], split: str, rng: random.Random) -> list[Piece]:
    """The strings of a split, of words of one speaker each; every word is used equally often, give or take one."""
    by_speaker: dict[str, list[Piece]] = {}
    for word in words:
        by_speaker.setdefault(word[2], []).append(word)
    supply = {speaker: endless(own, rng) for speaker, own in by_speaker.items()}
    strings = []
    for speaker in itertools.islice(itertools.cycle(sorted(supply)), STRINGS[split]):
        string = list(itertools.islice(supply[speaker], rng.randint(*WORDS)))
        strings.append((join(string, PAUSE[split], rng), " ".join(text for _, text, _ in string), speaker))
    return strings


def endless(words: list[Piece], rng: random.Random):
    """All words in random order, again and again."""
    while True:
        yield from rng.sample(words, len(words))


def join(words: list[Piece], pause: tuple[float, float], rng: random.Random) -> np.ndarray:
    """Words one after the other, with pauses or overlaps between them."""
    starts, position = [], seconds(EDGE, rng)
    for samples, _, _ in words:
        starts.append(max(0, position))
        position = starts[-1] + len(samples) + seconds(pause, rng)
    end = max(start + len(word[0]) for start, word in zip(starts, words, strict=True))
    joined = np.zeros(end + seconds(EDGE, rng), np.float32)
    for start, (samples, _, _) in zip(starts, words, strict=True):
        joined[start : start + len(samples)] += samples * 10 ** (rng.uniform(*LEVEL) / 20)
    return np.clip(joined, -1.0, 1.0)


def seconds(bounds: tuple[float, float], rng: random.Random) -> int:
    return round(rng.uniform(*bounds) * RATE)


def write(output: Path, split: str, strings: list[Piece]) -> None:
    folder = output / split
    folder.mkdir(parents=True, exist_ok=True)
    utterances = []
    for number, (samples, text, speaker) in enumerate(strings):
        path = folder / f"{number:05}.wav"
        soundfile.write(path, samples, RATE)
        utterances.append(Utterance(path.absolute(), round(len(samples) / RATE, 3), text, speaker=speaker))
    write_manifest(output / f"{split}.jsonl", utterances)
    words = sum(len(utterance.text.split()) for utterance in utterances)
    hours = sum(utterance.duration for utterance in utterances) / 3600
    print(f"{split}: {len(utterances)} strings, {words} words, {hours:.2f} h")


if __name__ == "__main__":
    main()
