"""Prepares manifests of several English corpora, with the audio as 16-bit WAV at 16 kHz.

    python recipes/english/prepare.py --output FOLDER --librispeech PLACE --common-voice PLACE --speechocean762 PLACE \\
        --kathleen PLACE --others PLACE...

A PLACE is a folder in the corpus's original layout, or a folder or a tar with its audio and a manifest.jsonl. Those of
--others are in the layout of LJ Speech (metadata.csv), or have a manifest. Every option but --output may be left out.

    train               everything except the following, up to 18 s
    dev-librispeech     three readers of train-clean-5, a woman and two men
    dev-common-voice    speakers of Common Voice who occur nowhere else; train has none of their sentences
    dev-speechocean762  the six speakers of recipes/speechocean762
    dev-kathleen        prompts of Kathleen that occur nowhere else, in the voice of train
    dev                 every third utterance of all these, for validation in training
"""

import argparse
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import soundfile

from ds2.audio.tensors import read_audio
from ds2.cli.recipe_scripts import run_script, write_splits
from ds2.data.corpus_rows import Row, corpus_folder, csv_rows, manifest_rows, measured, read_table
from ds2.data.layouts import common_voice, librispeech
from ds2.data.split import cut_speakers, split
from ds2.data.utterance import Utterance
from ds2.utils.files import make_folder
from ds2.utils.progress import Progress

RATE = 16000  # Hz
LONGEST = 18.0  # seconds
ALPHABET = "abcdefghijklmnopqrstuvwxyz' "
SPEECHOCEAN762_DEV = {"0135", "1012", "5401", "9611", "9619", "9639"}  # speakers
COMMON_VOICE_DEV = 350  # utterances
COMMON_VOICE_MOST = 20  # the limit for one dev speaker, so that there are many speakers
KATHLEEN_DEV = 0.05  # fraction of the hours

Parts = tuple[list[Utterance], list[Utterance]]  # train, dev


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    for name in CUTS:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--others", type=Path, nargs="*", default=[])
    arguments = parser.parse_args()
    train: list[Utterance] = []
    splits: dict[str, list[Utterance]] = {}
    skipped: list[str] = []
    for name, cut in CUTS.items():
        if (place := getattr(arguments, name.replace("-", "_"))) is not None:
            own, dev = cut(read(place, arguments.output, skipped))
            train += own
            splits[f"dev-{name}"] = copied(dev, arguments.output / "audio" / f"dev-{name}")
    for place in arguments.others:
        train += read(place, arguments.output, skipped)
    dev = [each for part in splits.values() for each in part][::3]
    train = copied(train, arguments.output / "audio" / "train")
    write_splits(arguments.output, {**splits, "dev": dev, "train": train}, skipped)


def read(place: Path, output: Path, skipped: list[str]) -> list[Utterance]:
    """The normalised utterances of a corpus; each one that cannot be used becomes a line of `skipped`."""
    folder = corpus_folder(place, output / "unpacked")
    utterances, left_out = measured(corpus_rows(folder), "en", ALPHABET)
    skipped += left_out
    skipped += [f"{each.place}: longer than {LONGEST} s" for each in utterances if each.duration > LONGEST]
    return [each for each in utterances if each.duration <= LONGEST]


def corpus_rows(folder: Path) -> Iterable[Row]:
    """The rows of a corpus in any supported layout."""
    if rows := manifest_rows(folder):
        return rows
    if (folder / "metadata.csv").exists():
        return csv_rows(folder, folder.name)
    if (folder / "validated.tsv").exists():
        return common_voice.read(folder / "validated.tsv", folder)
    if (folder / "train" / "wav.scp").exists():
        return speechocean_rows(folder)
    return librispeech.read(folder, folder)


def speechocean_rows(folder: Path) -> Iterable[Row]:
    """The train part of speechocean762 in its published form: Kaldi's tables."""
    texts, speakers, audio = (read_table(folder / "train" / name) for name in ("text", "utt2spk", "wav.scp"))
    return [Row(folder / audio[name], text, speakers[name]) for name, text in texts.items()]


def cut_common_voice(utterances: Sequence[Utterance]) -> Parts:
    """Random speakers are dev, up to 20 utterances of each; train has neither these speakers nor their sentences."""
    by_speaker: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        if utterance.speaker is not None:
            by_speaker.setdefault(utterance.speaker, []).append(utterance)
    speakers: set[str] = set()
    dev: list[Utterance] = []
    for speaker in random.Random(1).sample(sorted(by_speaker), len(by_speaker)):
        if len(dev) < min(COMMON_VOICE_DEV, len(utterances) // 5):
            speakers.add(speaker)
            dev += by_speaker[speaker][:COMMON_VOICE_MOST]
    sentences = {each.text for each in dev}
    train = [each for each in utterances if each.speaker not in speakers and each.text not in sentences]
    return train, dev


def cut_by_text(utterances: Sequence[Utterance]) -> Parts:
    parts = split(utterances, {"dev": KATHLEEN_DEV}, by="text")
    return parts["train"], parts["dev"]


CUTS: dict[str, Callable[[Sequence[Utterance]], Parts]] = {
    "librispeech": lambda utterances: cut_speakers(utterances, librispeech.MINI_DEV),
    "common-voice": cut_common_voice,
    "speechocean762": lambda utterances: cut_speakers(utterances, SPEECHOCEAN762_DEV),
    "kathleen": cut_by_text,
}


def copied(utterances: Sequence[Utterance], folder: Path) -> list[Utterance]:
    """Copies the audio to 16-bit WAV: compressed speech would be decoded again in every epoch."""
    make_folder(folder)
    copies = []
    with Progress(f"decoding {folder.name}", len(utterances), "utterances") as progress:
        for number, utterance in enumerate(utterances):
            target = (folder / f"{number:05}.wav").absolute()
            samples, _ = read_audio(utterance.audio_path, RATE)
            soundfile.write(target, samples.numpy(), RATE)
            copies.append(replace(utterance, audio_path=target, duration=round(len(samples) / RATE, 3)))
            progress.step()
    return copies


if __name__ == "__main__":
    run_script(main)
