"""Strings of recorded words: connected speech from a corpus of single words, with known joins."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ds2.audio.flac import write_flac
from ds2.data.manifest import write_manifest
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import make_folder

Range = tuple[float, float]


@dataclass(frozen=True)
class WordString:
    """A recorded word, or a string of them."""

    samples: np.ndarray  # (N,) float32
    text: str
    speaker: str


@dataclass(frozen=True)
class WordStringConfig:
    """How words become strings; ranges are drawn from uniformly."""

    words: tuple[int, int] = (1, 7)  # in a string, at the least and at the most
    pause: Range = (0.0, 0.25)  # seconds between words; below 0 they overlap
    edge: Range = (0.0, 0.35)  # seconds of silence before and after a string
    level: Range = (-3.0, 3.0)  # dB between the words of a string
    separator: str = " "  # between their texts; nothing between ideographs


def make_strings(
    words: Sequence[WordString], count: int, config: WordStringConfig, sample_rate: int, rng: random.Random
) -> list[WordString]:
    """`count` strings of words of one speaker each; all words are used equally often, give or take one."""
    by_speaker: dict[str, list[WordString]] = {}
    for word in words:
        by_speaker.setdefault(word.speaker, []).append(word)
    supply = {speaker: _endless(own, rng) for speaker, own in by_speaker.items()}
    strings = []
    for speaker in itertools.islice(itertools.cycle(sorted(supply)), count):
        string = list(itertools.islice(supply[speaker], rng.randint(*config.words)))
        samples = join([word.samples for word in string], config, sample_rate, rng)
        strings.append(WordString(samples, config.separator.join(word.text for word in string), speaker))
    return strings


def join(words: Sequence[np.ndarray], config: WordStringConfig, sample_rate: int, rng: random.Random) -> np.ndarray:
    """(N,) samples of words one after the other, with pauses or overlaps between them, at different levels."""

    def size(seconds: Range) -> int:
        return round(rng.uniform(*seconds) * sample_rate)

    starts, position = [], size(config.edge)
    for samples in words:
        starts.append(max(0, position))
        position = starts[-1] + len(samples) + size(config.pause)
    end = max(start + len(samples) for start, samples in zip(starts, words, strict=True))
    joined = np.zeros(end + size(config.edge), np.float32)
    for start, samples in zip(starts, words, strict=True):
        joined[start : start + len(samples)] += samples * 10 ** (rng.uniform(*config.level) / 20)
    return np.clip(joined, -1.0, 1.0)


def write_strings(folder: Path, split: str, strings: Sequence[WordString], sample_rate: int) -> list[Utterance]:
    """Writes `folder`/SPLIT/NUMBER.flac and, last of all, `folder`/SPLIT.jsonl.

    Raises:
        InputError: there are no strings.
    """
    if not strings:
        raise InputError(f"{folder}: no words were found to make strings of for {split}")
    make_folder(folder / split)
    utterances = []
    for number, string in enumerate(strings):
        path = folder / split / f"{number:05}.flac"
        write_flac(path, string.samples, sample_rate)
        duration = round(len(string.samples) / sample_rate, 3)
        utterances.append(Utterance(path.absolute(), duration, string.text, speaker=string.speaker))
    write_manifest(folder / f"{split}.jsonl", utterances)
    return utterances


def _endless(words: Sequence[WordString], rng: random.Random) -> Iterator[WordString]:
    """All words in random order, again and again."""
    while True:
        yield from rng.sample(words, len(words))
