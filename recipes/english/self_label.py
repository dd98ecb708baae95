"""Recognised texts of recordings without a text as training data, and sounds without speech that have no words.

    ds2 transcribe CLIPS --format json --no-punctuate --output transcripts
    python recipes/english/self_label.py transcripts --output FOLDER [--confidence 0.6] [--leave-out dev.jsonl]

A recording is taken if that share of its words is probably right. Writes FOLDER/self.jsonl and FOLDER/no_speech.jsonl
with their audio, 16-bit WAV at 16 kHz.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from ds2.audio.no_speech import sounds
from ds2.audio.tensors import read_audio
from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.utterance import Utterance
from ds2.utils.files import make_folder
from ds2.utils.progress import Progress

RATE = 16000  # Hz
LONGEST = 18.0  # seconds
LEAST_WORDS = 2
FIRST_SEED = 5000  # other sounds than those of ds2 calibrate and benchmarks/no_speech.py


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transcripts", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--confidence", type=float, default=0.6)
    parser.add_argument("--leave-out", type=Path, nargs="*", default=[], help="manifests whose texts are left out")
    parser.add_argument("--seeds", type=int, default=60, help="how many sounds of each kind there are without speech")
    arguments = parser.parse_args()
    left_out = {utterance.text for path in arguments.leave_out for utterance in read_manifest(path)}
    for name in ("self", "no_speech"):
        make_folder(arguments.output / "audio" / name)
    write_manifest(
        arguments.output / "no_speech.jsonl", wordless(arguments.output / "audio" / "no_speech", arguments.seeds)
    )
    write_manifest(
        arguments.output / "self.jsonl",
        recognised(arguments.transcripts, arguments.output / "audio" / "self", arguments.confidence, left_out),
    )


def recognised(transcripts: Path, audio: Path, confidence: float, left_out: set[str]) -> Iterator[Utterance]:
    """The recordings whose words are right with at least this probability, on average."""
    files = sorted(transcripts.rglob("*.json"))
    with Progress("choosing recordings", len(files), "recordings") as progress:
        for number, file in enumerate(files):
            progress.step()
            transcript = json.loads(file.read_text())
            words = transcript["words"]
            if len(words) < LEAST_WORDS or transcript["text"] in left_out:
                continue
            if sum(word["confidence"] for word in words) < confidence * len(words):
                continue
            samples, _ = read_audio(transcript["file"], RATE)
            if len(samples) <= LONGEST * RATE:
                yield written(audio / f"{number:06}.wav", samples.numpy(), transcript["text"])


def wordless(audio: Path, seeds: int) -> Iterator[Utterance]:
    """Synthesised sounds of 2 to 8 seconds, with an empty text."""
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        for name, samples in sounds(random.Random(seed).uniform(2.0, 8.0), RATE, seed):
            yield written(audio / f"{seed}-{name}.wav", samples.numpy(), "")


def written(path: Path, samples: np.ndarray, text: str) -> Utterance:
    soundfile.write(path, samples, RATE)
    return Utterance(path.absolute(), round(len(samples) / RATE, 3), text)


if __name__ == "__main__":
    run_script(main)
