"""Manifests of read English: speechocean762's train part and, where asked for, the recordings of Kathleen.

    python recipes/speechocean762/prepare.py --speechocean762 FOLDER --output FOLDER [--kathleen FOLDER] [--rate 8000]

The first folder is the corpus as https://www.openslr.org/101 holds it, or any with a manifest.jsonl of its audio;
that of Kathleen is https://github.com/rhasspy/dataset-voice-kathleen, or one with a manifest.jsonl.

    train  all but the utterances of the dev speakers (and with --without-readers of those who read the test strings of
           recipes/digits)
    dev    six speakers of speechocean762
"""

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import soundfile

from ds2.data.audio import probe, read_audio
from ds2.data.manifest import Utterance, write_manifest
from ds2.progress import Progress
from ds2.text import normalize

sys.path.insert(0, str(Path(__file__).parents[1] / "digits"))
from prepare import read_rows, stranger_speakers

LONGEST = 10.0  # seconds
DEV_SPEAKERS = 6
LETTERS = re.compile("[a-z' ]+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speechocean762", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--kathleen", type=Path)
    parser.add_argument("--rate", type=int, default=16000, help="Hz")
    parser.add_argument("--without-readers", action="store_true", help="for models that are tested on digit strings")
    arguments = parser.parse_args()
    rows = list(manifest_rows(arguments.speechocean762) or speechocean_rows(arguments.speechocean762))
    held_out = stranger_speakers(read_rows())
    speakers = sorted({speaker for _, _, speaker in rows} - held_out)
    dev = set(random.Random(1).sample(speakers, DEV_SPEAKERS))
    if arguments.kathleen is not None:
        rows += list(manifest_rows(arguments.kathleen) or kathleen_rows(arguments.kathleen))
    splits: dict[str, list[Utterance]] = {"train": [], "dev": []}
    with Progress("resampling", len(rows), "utterances") as progress:
        for number, (path, text, speaker) in enumerate(rows):
            progress.step()
            text = normalize(text, "en")
            kept = not (arguments.without_readers and speaker in held_out)
            if kept and LETTERS.fullmatch(text) and probe(path).duration <= LONGEST:
                target = arguments.output / "audio" / f"{number:05}.wav"
                duration = resample_file(path, target, arguments.rate)
                split = splits["dev" if speaker in dev else "train"]
                split.append(Utterance(target.absolute(), duration, text, speaker=speaker))
    for split, utterances in splits.items():
        write_manifest(arguments.output / f"{split}.jsonl", utterances)
        hours = sum(utterance.duration for utterance in utterances) / 3600
        print(f"{split}: {len(utterances)} utterances, {hours:.2f} h")


Row = tuple[Path, str, str]  # audio, text, speaker


def manifest_rows(folder: Path) -> list[Row]:
    """Empty where the folder has no manifest.jsonl."""
    path = folder / "manifest.jsonl"
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(folder / row["audio_filepath"], row["text"], row["speaker"]) for row in rows]


def speechocean_rows(folder: Path) -> Iterator[Row]:
    """The corpus as it is published: Kaldi's tables in train/."""
    texts, speakers, audio = (table(folder / "train" / name) for name in ("text", "utt2spk", "wav.scp"))
    for utterance, text in texts.items():
        yield folder / audio[utterance], text, speakers[utterance]


def table(path: Path) -> dict[str, str]:
    pairs = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines())
    return {key: value.strip() for key, value in pairs}


def kathleen_rows(folder: Path) -> Iterator[Row]:
    """The voice as it is published: name|text lines in metadata.csv beside wav/."""
    for line in (folder / "metadata.csv").read_text(encoding="utf-8").splitlines():
        name, text = line.split("|")[:2]
        yield folder / "wav" / f"{name}.wav", text, "kathleen"


def resample_file(source: Path, target: Path, rate: int) -> float:
    """Seconds of it."""
    samples, _ = read_audio(source, rate)
    target.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(target, samples.numpy(), rate)
    return round(len(samples) / rate, 3)


if __name__ == "__main__":
    main()
