"""Long recordings with their whole transcripts: readings as they are, and utterances joined where one knows the joins.

    python recipes/longform/prepare.py --readings FOLDER --manifest data/test.jsonl ... --output data/longform

Readings are NAME.mp3 (or any other format) beside NAME.txt, as LibriVox and Project Gutenberg give them; they are
copied into OUTPUT/readings. The utterances of each manifest are joined, one speaker at a time, into
OUTPUT/joined/NUMBER_SPEAKER.flac of about --minutes, with pauses, in weak noise; the .txt beside it has a line for
each, and joins.jsonl gives the times at which each line begins and ends.
"""

import argparse
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path

import numpy as np
import soundfile

from ds2.cli.recipe_scripts import run_script
from ds2.curation.pairs import find_pairs
from ds2.data.dataset import read_utterance
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.utils.files import atomic_write, make_folder, read_text
from ds2.utils.progress import Progress

PAUSE = (0.3, 1.5)  # seconds between utterances
RATE = 16000  # Hz
NOISE = 0.002  # of full scale, root mean square: pauses are no digital silence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readings", type=Path)
    parser.add_argument("--manifest", type=Path, nargs="*", default=[])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.readings is not None:
        for pair in find_pairs(arguments.readings):
            target = arguments.output / "readings" / pair.name
            make_folder(target.parent)
            shutil.copy(pair.audio, target)
            target.with_suffix(".txt").write_text(read_text(pair.text), encoding="utf-8")
    joins = []
    found = chain.from_iterable(groups(manifest, arguments.minutes * 60) for manifest in arguments.manifest)
    for number, (speaker, utterances) in enumerate(found):
        joins += join(arguments.output / "joined" / f"{number:03}_{speaker}.flac", utterances)
    if joins:
        with atomic_write(arguments.output / "joins.jsonl") as partial:
            partial.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in joins), encoding="utf-8")


def groups(manifest: Path, seconds: float) -> Iterator[tuple[str, list[Utterance]]]:
    """A speaker, and utterances of the speaker that last about as long as wanted."""
    utterances = sorted(read_manifest(manifest), key=lambda utterance: utterance.speaker or "")
    for speaker, group in groupby(utterances, key=lambda utterance: utterance.speaker or "speaker"):
        own = list(group)
        random.Random(speaker).shuffle(own)
        taken, total = [], 0.0
        for utterance in own:
            taken.append(utterance)
            total += utterance.duration + sum(PAUSE) / 2
            if total >= seconds or utterance is own[-1]:
                yield speaker, taken
                taken, total = [], 0.0


def join(path: Path, utterances: Sequence[Utterance]) -> list[dict]:
    """Writes the recording and its text; a row for each utterance."""
    rng = random.Random(path.name)
    parts, rows, position = [], [], 0
    with Progress(path.stem, len(utterances), "utterances") as progress:
        for utterance in utterances:
            samples = read_utterance(utterance, RATE).numpy()
            pause = np.zeros(round(rng.uniform(*PAUSE) * RATE), np.float32)
            start = position + len(pause)
            position = start + len(samples)
            parts += [pause, samples]
            rows.append({"name": path.name, "start": start / RATE, "end": position / RATE, "text": utterance.text})
            progress.step()
    make_folder(path.parent)
    path.with_suffix(".txt").write_text("".join(f"{row['text']}\n" for row in rows), encoding="utf-8")
    with atomic_write(path) as partial:
        samples = np.concatenate(parts)
        noise = NOISE * np.random.default_rng(0).standard_normal(len(samples), np.float32)
        soundfile.write(partial, np.clip(samples + noise, -1, 1), RATE, format="FLAC")
    return rows


if __name__ == "__main__":
    run_script(main)
