"""From long recordings with faulty transcripts to a clean set: the effect of alignment, segmentation and filter.

    python benchmarks/pipeline.py [--hours 2] [--output FOLDER]

Digits that the bundled model was not trained on (FSDD, takes 0-9, six speakers) are joined into recordings of ten
minutes, with room noise, so that the time of each word is known. 15 % of the lines of the transcripts are then
corrupted, in turn: words dropped, words exchanged, a wrong paragraph. Music or noise that no transcript mentions is put
into one line in twenty, and before as many.

`ds2 make-corpus` runs without the truth, then with that of the 200 segments that it asks to check. Alignment errors are
those of words in correct lines. WER compares the transcripts of the segments with the words in them, on all
segments but the 200.
"""

import argparse
import json
import math
import random
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import soundfile

from ds2.audio.tensors import read_audio
from ds2.curation.curated_corpus import CuratedCorpus
from ds2.curation.filter import FilterConfig
from ds2.curation.make import CurationConfig, make_corpus
from ds2.curation.text_errors import word_counts
from ds2.data.utterance import Utterance

AUDIO = Path(__file__).parents[1] / "recipes" / "digits" / "audio"
RATE = 8000  # Hz
MINUTES = 10.0  # of a recording
TAKES = range(10)  # of FSDD: those that nothing was trained on
WORDS = (4, 14)  # in a line
PAUSE = (0.03, 0.3)  # seconds between words
LINE_PAUSE = (0.35, 1.2)  # seconds between lines
SNR = (12.0, 35.0)  # dB
CORRUPTED = 0.15  # of the lines
INTERRUPTED = 0.05  # of the lines have music or noise within, and as many before them
DIGITS = "zero one two three four five six seven eight nine".split()


@dataclass
class Line:
    """Words that are said, when (seconds), what the transcript makes of them, and whether it is right."""

    words: list[str]
    spans: list[tuple[float, float]]
    text: str = ""
    right: bool = True


@dataclass
class Recording:
    name: str
    samples: np.ndarray
    lines: list[Line] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--output", type=Path, help="keep recordings and report here")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = arguments.output or Path(tempfile.mkdtemp())
    rng = random.Random(arguments.seed)
    recordings = make_recordings(round(arguments.hours * 60 / MINUTES), rng)
    corrupt([line for recording in recordings for line in recording.lines], rng)
    write(recordings, folder / "raw")
    truth = {recording.name: recording for recording in recordings}

    config = CurationConfig(model="digits", workers=arguments.workers)
    make_corpus(folder / "raw", folder / "corpus", config)
    checked = folder / "checked.jsonl"
    rows = [json.loads(line) for line in (folder / "corpus" / "to_check.jsonl").read_text().splitlines()]
    checked.write_text("".join(json.dumps({"id": row["id"], "text": said(row, truth)}) + "\n" for row in rows))
    for wanted in (0.05, 0.03, 0.02):
        config = replace(config, checked=checked, filter=FilterConfig(wer=wanted))
        corpus = make_corpus(folder / "raw", folder / "corpus", config)
        if wanted == 0.05:
            report_alignment(corpus, truth)
            print(
                "\n| wanted WER | segments kept | hours kept | WER before | WER after | ROC area |"
                "\n|---|---|---|---|---|---|"
            )
        report_filter(wanted, corpus, truth, {row["id"] for row in rows})
    if arguments.output is None:
        shutil.rmtree(folder)


def make_recordings(count: int, rng: random.Random) -> list[Recording]:
    """Recordings of one speaker each, words in lines, in the noise of one room."""
    rows = [json.loads(line) for line in (AUDIO / "utterances.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["source"] == "fsdd" and row["take"] in TAKES]
    files = {name: read_audio(AUDIO / name, RATE)[0].numpy() for name in {row["audio_filepath"] for row in rows}}
    noises = [read_audio(path, RATE)[0].numpy() for path in sorted(AUDIO.glob("noise_*"))]
    speakers = sorted({row["speaker"] for row in rows})
    recordings = []
    for number in range(count):
        speaker = speakers[number % len(speakers)]
        words = [
            (row["text"], files[row["audio_filepath"]][round(row["offset"] * RATE) :][: round(row["duration"] * RATE)])
            for row in rows
            if row["speaker"] == speaker
        ]
        recordings.append(join(f"{number:03}_{speaker}.wav", words, noises, rng))
    return recordings


def join(name: str, words: list[tuple[str, np.ndarray]], noises: list[np.ndarray], rng: random.Random) -> Recording:
    parts, lines, position = [], [], 0

    def add(samples: np.ndarray) -> None:
        nonlocal position
        parts.append(samples)
        position += len(samples)

    while position < MINUTES * 60 * RATE:
        line = Line([], [])
        add(np.zeros(seconds(LINE_PAUSE, rng)))
        if rng.random() < INTERRUPTED:
            add(interruption(noises, rng))
            add(np.zeros(seconds(LINE_PAUSE, rng)))
        chosen = rng.choices(words, k=rng.randint(*WORDS))
        broken = rng.randrange(1, len(chosen)) if rng.random() < INTERRUPTED else -1
        for index, (text, samples) in enumerate(chosen):
            add(np.zeros(seconds(PAUSE, rng)))
            if index == broken:
                add(interruption(noises, rng))
            line.words.append(text)
            line.spans.append((position / RATE, (position + len(samples)) / RATE))
            add(samples * 10 ** (rng.uniform(-3, 3) / 20))
        line.text = " ".join(line.words)
        lines.append(line)
    samples = np.concatenate(parts)
    noise = np.resize(rng.choice(noises), len(samples))
    level = np.std(samples) / np.std(noise) / 10 ** (rng.uniform(*SNR) / 20)
    return Recording(name, np.clip(samples + level * noise, -1, 1), lines)


def interruption(noises: list[np.ndarray], rng: random.Random) -> np.ndarray:
    """2 to 6 s of music or of loud noise."""
    size = seconds((2.0, 6.0), rng)
    if rng.random() < 0.5:
        start = rng.randrange(len(noises[0]) // 2)
        noise = np.resize(rng.choice(noises)[start:], size)
        return noise * 0.1 / max(1e-4, float(np.std(noise)))
    notes = [220 * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 11, 12]) / 12) for _ in range(math.ceil(size / RATE / 0.25))]
    time = np.arange(RATE // 4) / RATE
    tones = [
        sum(np.sin(2 * np.pi * note * partial * time) / partial for partial in (1, 2, 3)) * np.exp(-4 * time)
        for note in notes
    ]
    return 0.1 * np.concatenate(tones)[:size]


def corrupt(lines: list[Line], rng: random.Random) -> None:
    """Gives CORRUPTED of the lines a text that is wrong, each kind of fault in turn."""
    chosen = rng.sample(range(len(lines)), round(CORRUPTED * len(lines)))
    for number, index in enumerate(chosen):
        line = lines[index]
        words, line.right = line.words, False
        if number % 3 == 0:  # dropped
            kept = rng.sample(range(len(words)), max(1, len(words) // 3))
            line.text = " ".join(words[place] for place in sorted(kept))
        elif number % 3 == 1:  # exchanged
            line.text = " ".join(rng.choice(DIGITS) for _ in words)
        else:  # a wrong paragraph: two or three lines of other recordings
            line.text = " ".join(" ".join(other.words) for other in rng.sample(lines, rng.randint(2, 3)))


def write(recordings: list[Recording], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for recording in recordings:
        soundfile.write(folder / recording.name, recording.samples, RATE)
        text = "\n".join(line.text for line in recording.lines) + "\n"
        (folder / recording.name).with_suffix(".txt").write_text(text)
    lines = [line for recording in recordings for line in recording.lines]
    total = sum(len(recording.samples) for recording in recordings) / RATE / 3600
    wrong = sum(word_counts(" ".join(line.words), line.text)[0] for line in lines)
    words = sum(len(line.words) for line in lines)
    print(f"{len(recordings)} recordings, {total:.2f} h, {len(lines)} lines, {words} words; ", end="")
    print(f"{sum(not line.right for line in lines)} lines corrupted, WER of the transcripts {wrong / words:.1%}")


def said(row: dict, truth: dict[str, Recording]) -> str:
    """The words whose middle lies in a segment."""
    name = row["id"].rpartition("/")[0]
    start, end = row["start"], row["start"] + row["duration"]
    return " ".join(
        word
        for line in truth[name].lines
        for word, span in zip(line.words, line.spans, strict=True)
        if start <= (span[0] + span[1]) / 2 < end
    )


def report_alignment(corpus: CuratedCorpus, truth: dict[str, Recording]) -> None:
    """Errors of word edges in lines that are right, among the segments: milliseconds."""
    errors, missed = [], 0
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for segment in corpus.segments:
        start = segment.extra["start"]
        words = found.setdefault(segment.extra["id"].rpartition("/")[0], {})
        for text, begin, end, _ in segment.extra["words"]:
            words.setdefault(text, []).append((start + begin, start + end))
    for name, recording in truth.items():
        for line in recording.lines:
            for word, span in zip(line.words, line.spans, strict=True):
                if line.right:
                    near = min(
                        found.get(name, {}).get(word, []), key=lambda other: abs(other[0] - span[0]), default=None
                    )
                    if near is None or abs(near[0] - span[0]) > 0.5:
                        missed += 1
                    else:
                        errors += [1000 * abs(near[0] - span[0]), 1000 * abs(near[1] - span[1])]
    spread = statistics.quantiles(errors, n=100)
    print(f"alignment: median error of word edges {spread[49]:.0f} ms, mean {statistics.mean(errors):.0f} ms, ", end="")
    print(
        f"95th percentile {spread[94]:.0f} ms; {missed / (missed + len(errors) / 2):.1%} of the words not within 0.5 s"
    )
    lengths = [segment.duration for segment in corpus.segments]
    print(
        f"segments: {len(lengths)}, mean {statistics.mean(lengths):.2f} s, {min(lengths):.1f} to {max(lengths):.1f} s"
    )


def report_filter(wanted: float, corpus: CuratedCorpus, truth: dict[str, Recording], seen: set[str]) -> None:
    rest = [segment for segment in corpus.segments if segment.extra["id"] not in seen]
    kept = [segment for segment in rest if segment.extra["kept"]]
    hours = sum(segment.duration for segment in kept) / sum(segment.duration for segment in rest)
    assert corpus.report is not None
    print(
        f"| {wanted:.0%} | {len(kept) / len(rest):.1%} | {hours:.1%} | {wer(rest, truth):.2%} | {wer(kept, truth):.2%} "
        f"| {corpus.report.area:.3f} |",
        flush=True,
    )


def wer(segments: Sequence[Utterance], truth: dict[str, Recording]) -> float:
    counts = [
        word_counts(said(segment.extra | {"duration": segment.duration}, truth), segment.text) for segment in segments
    ]
    return sum(errors for errors, _ in counts) / max(1, sum(length for _, length in counts))


def seconds(bounds: tuple[float, float], rng: random.Random) -> int:
    return round(rng.uniform(*bounds) * RATE)


if __name__ == "__main__":
    main()
