"""Manifests of read English: speechocean762's train part and, where asked for, the recordings of Kathleen.

    python recipes/speechocean762/prepare.py --speechocean762 FOLDER --output FOLDER [--kathleen FOLDER] [--rate 8000]

The first folder is the corpus as https://www.openslr.org/101 holds it, or any with a manifest.jsonl of its audio;
that of Kathleen is https://github.com/rhasspy/dataset-voice-kathleen, or one with a manifest.jsonl.

    train  all but the utterances of the dev speakers (and with --without-readers of those who read the test strings of
           recipes/digits)
    dev    six speakers of speechocean762
"""

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import soundfile

from ds2.audio.tensors import read_audio
from ds2.cli.recipe_scripts import run_script, write_splits
from ds2.data.corpus_rows import Row, csv_rows, manifest_rows, measured, read_table
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import make_folder
from ds2.utils.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1] / "digits"))
from prepare import read_rows, stranger_speakers

LONGEST = 10.0  # seconds
DEV_SPEAKERS = 6
ALPHABET = "abcdefghijklmnopqrstuvwxyz' "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speechocean762", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--kathleen", type=Path)
    parser.add_argument("--rate", type=int, default=16000, help="Hz")
    parser.add_argument("--without-readers", action="store_true", help="for models that are tested on digit strings")
    arguments = parser.parse_args()
    rows = manifest_rows(arguments.speechocean762) or list(speechocean_rows(arguments.speechocean762))
    readers = stranger_speakers(read_rows())
    others = sorted({row.speaker for row in rows} - readers)
    if len(others) < DEV_SPEAKERS:
        raise InputError(f"{arguments.speechocean762}: {len(others)} speakers; dev alone wants {DEV_SPEAKERS}")
    dev = set(random.Random(1).sample(others, DEV_SPEAKERS))
    if arguments.kathleen is not None:
        rows += manifest_rows(arguments.kathleen) or csv_rows(arguments.kathleen, "kathleen")
    utterances, skipped = measured(rows, "en", ALPHABET)
    left_out = readers if arguments.without_readers else set()
    kept = [each for each in utterances if each.duration <= LONGEST and each.speaker not in left_out]
    splits: dict[str, list[Utterance]] = {"train": [], "dev": []}
    with Progress("resampling", len(kept), "utterances") as progress:
        for number, utterance in enumerate(kept):
            split = "dev" if utterance.speaker in dev else "train"
            target = arguments.output / "audio" / f"{number:05}.wav"
            splits[split].append(resampled(utterance, target, arguments.rate))
            progress.step()
    write_splits(arguments.output, splits, skipped)


def speechocean_rows(folder: Path) -> Iterator[Row]:
    """The corpus as it is published: Kaldi's tables in train/."""
    texts, speakers, audio = (read_table(folder / "train" / name) for name in ("text", "utt2spk", "wav.scp"))
    for utterance, text in texts.items():
        yield Row(folder / audio[utterance], text, speakers[utterance])


def resampled(utterance: Utterance, target: Path, rate: int) -> Utterance:
    """Its copy in `target`."""
    samples, _ = read_audio(utterance.audio_path, rate)
    make_folder(target.parent)
    soundfile.write(target, samples.numpy(), rate)
    return replace(utterance, audio_path=target.absolute(), duration=round(len(samples) / rate, 3))


if __name__ == "__main__":
    run_script(main)
