"""How well the alignment finds the edges of words and pauses whose times are known.

    python benchmarks/boundaries.py

    digits    readings of 50 digits from FSDD's test split, joined with pauses of 50 to 200 ms; the model digits
    flite     sentences of a speech synthesiser, which tells when each phone ends, with its pauses; the model english
    english   recordings of recipes/english/audio from the first word to the last, joined with pauses of 0.12 to 1.5 s
    noisy     the same in white noise, 15 dB below the mean power of the whole

An error is the distance from the true edge. Edges beside pauses count as starts and ends; where words meet there is one
edge, and a pause there is a false one.
"""

import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

import ds2
from ds2.audio.tensors import read_audio
from ds2.recognition.align import align
from ds2.recognition.recognizer import Recognizer

ROOT = Path(__file__).parents[1]
RATE = 16000  # Hz
NOISE = 10 ** (-65 / 20)
SNR = 15.0  # dB
LEAST_PAUSE = 0.05  # seconds: words that are closer meet
VOICES = ("kal16", "slt", "rms", "awb")
SENTENCES = (
    "I came here from Boston, and I found them at last.",
    "The secret got out. Tom watched Mary eat.",
    "He saw a light far away, but nobody believed him.",
    "What time did the plane arrive? Should I take it for you?",
    "If half of it is off, stop both of them. Five of us will laugh.",
    "We walked past the wolf, the giraffe, and the fish.",
)
SPEECH = {
    "cv_00026.opus": (1.23, 4.77),
    "cv_00102.opus": (0.66, 5.21),
    "cv_00139.opus": (0.67, 4.69),
    "libri_00088.opus": (0.23, 4.23),
    "libri_00098.opus": (0.46, 6.11),
}  # seconds: read from spectrograms; breath and clicks lie outside

Span = tuple[float | None, float | None]  # seconds; None where the edge is not known


class Reading(NamedTuple):
    audio: Path
    text: str
    spans: list[Span]


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    english = ds2.load("english", "cpu")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report("digits", ds2.load("digits", "cpu"), digits(folder))
        if shutil.which("flite") is not None:
            report("flite", english, synthesised(folder))
        report("english", english, joined(folder))
        report("noisy", english, noisy(joined(folder)))


def report(name: str, recognizer: Recognizer, readings: Iterator[Reading]) -> None:
    """Prints the errors of all readings."""
    errors: dict[str, list[float]] = {"start": [], "end": [], "meeting": []}
    false = 0
    for audio, text, spans in readings:
        words = align(recognizer, audio, text).transcript.words
        pairs = itertools.pairwise(spans)
        meets = [end is not None and start is not None and start - end < LEAST_PAUSE for (_, end), (start, _) in pairs]
        for word, (start, end), met, meeting in zip(words, spans, [False, *meets], [*meets, False], strict=True):
            if start is not None and not met:
                errors["start"].append(abs(word.start - start))
            if end is not None:
                errors["meeting" if meeting else "end"].append(abs(word.end - end))
        false += sum(b.start > a.end and met for (a, b), met in zip(itertools.pairwise(words), meets, strict=True))
    for kind, values in errors.items():
        if values:
            median, most = 1000 * np.percentile(values, [50, 90])
            print(f"{name:8} {kind:8} {len(values):5} edges, median error {median:3.0f} ms, 90 % within {most:3.0f} ms")
    if errors["meeting"]:
        print(f"{name:8} false pauses between {false / len(errors['meeting']):.1%} of the words that meet")


def digits(folder: Path) -> Iterator[Reading]:
    from helpers.readings import read_digits

    for seed in range(12):
        reading = read_digits(folder / "digits.wav", seed, 10, 5)
        yield Reading(folder / "digits.wav", reading.text, list(reading.spans))


def synthesised(folder: Path) -> Iterator[Reading]:
    path = folder / "flite.wav"
    for voice, sentence in itertools.product(VOICES, SENTENCES):
        ends = [entry.rpartition(":") for entry in speak(voice, sentence, "-psdur", path)]
        phones = [
            (float(start), float(end))
            for (_, _, start), (phone, _, end) in itertools.pairwise([("", "", "0"), *ends])
            if phone != "pau"
        ]
        spans: list[Span] = []
        for word in re.findall(r"[\w']+", sentence):
            count = sum(phone != "pau" for phone in speak(voice, word, "-ps", Path("none")))
            spans.append((phones[0][0], phones[count - 1][1]))
            phones = phones[count:]
        if phones:
            raise RuntimeError(f"{voice} says {sentence!r} with other phones than its words")
        samples, _ = read_audio(path, RATE)
        write(path, samples.numpy() / float(samples.abs().max()) / 2)
        yield Reading(path, sentence, spans)


def speak(voice: str, text: str, listing: str, path: Path) -> list[str]:
    command = ["flite", "-voice", voice, listing, "-t", text, "-o", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def joined(folder: Path) -> Iterator[Reading]:
    audio = ROOT / "recipes" / "english" / "audio"
    rows = [json.loads(line) for line in (audio / "manifest.jsonl").read_text().splitlines()]
    sounds = []
    for name in (row["audio_filepath"] for row in rows):
        start, end = SPEECH[name]
        samples = read_audio(audio / name, RATE, start, end - start)[0].numpy()
        sounds.append(samples / np.percentile(np.abs(samples), 99.5) * 0.3)
    rng = random.Random(0)
    for _ in range(10):
        parts, spans, texts, position = [np.zeros(RATE // 2)], [], [], RATE // 2
        for place in rng.sample(range(len(rows)), len(rows)):
            pause = np.zeros(round(rng.uniform(0.12, 1.5) * RATE))
            parts += [sounds[place], pause]
            words: list[list[float | None]] = [[None, None] for _ in rows[place]["text"].split()]
            words[0][0], words[-1][1] = position / RATE, (position + len(sounds[place])) / RATE
            spans += [(start, end) for start, end in words]
            texts.append(rows[place]["text"])
            position += len(sounds[place]) + len(pause)
        write(folder / "joined.wav", np.concatenate(parts))
        yield Reading(folder / "joined.wav", "\n".join(texts), spans)


def noisy(readings: Iterator[Reading]) -> Iterator[Reading]:
    for reading in readings:
        samples = read_audio(reading.audio, RATE)[0].numpy()
        level = 10 ** (-SNR / 20) * np.sqrt(np.mean(samples**2))
        noise = np.random.default_rng(1).normal(0, level, len(samples))
        soundfile.write(reading.audio, samples + noise, RATE, subtype="FLOAT")
        yield reading


def write(path: Path, samples: np.ndarray) -> None:
    """In weak noise, which is the same in each run."""
    soundfile.write(path, samples + np.random.default_rng(0).normal(0, NOISE, len(samples)), RATE, subtype="FLOAT")


if __name__ == "__main__":
    main()
