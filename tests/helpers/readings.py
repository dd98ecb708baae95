"""Long readings of digits whose words and times are known, from the recordings in the digits recipe."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from conftest import DIGITS

RATE = 8000  # Hz


@dataclass(frozen=True)
class Reading:
    """Words, their spans in seconds, and which line each belongs to."""

    words: list[str]
    spans: list[tuple[float, float]]
    lines: list[int]

    @property
    def text(self) -> str:
        rows: dict[int, list[str]] = {}
        for word, line in zip(self.words, self.lines, strict=True):
            rows.setdefault(line, []).append(word)
        return "\n".join(" ".join(row) for row in rows.values()) + "\n"

    def said(self, start: float, end: float) -> list[str]:
        """The words whose middle lies between two times."""
        pairs = zip(self.words, self.spans, strict=True)
        return [word for word, span in pairs if start <= (span[0] + span[1]) / 2 < end]


def read_digits(path: Path, seed: int, lines: int = 8, length: int = 5) -> Reading:
    """Writes lines of `length` digits of one FSDD speaker, test takes, with pauses, in weak noise."""
    rng = random.Random(seed)
    rows = [json.loads(line) for line in (DIGITS / "utterances.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["source"] == "fsdd" and row["audio_filepath"].endswith(".flac")]
    speaker = rng.choice(sorted({row["speaker"] for row in rows}))
    recording, _ = soundfile.read(DIGITS / f"fsdd_{speaker}_test.flac")
    rows = [row for row in rows if row["speaker"] == speaker]
    parts, reading, position = [], Reading([], [], []), 0
    for line in range(lines):
        for number, row in enumerate(rng.choices(rows, k=length)):
            pause = round(rng.uniform(*((0.05, 0.2) if number else (0.5, 0.9))) * RATE)
            start = round(row["offset"] * RATE)
            samples = recording[start : start + round(row["duration"] * RATE)]
            parts += [np.zeros(pause), samples]
            position += pause + len(samples)
            reading.words.append(row["text"])
            reading.spans.append(((position - len(samples)) / RATE, position / RATE))
            reading.lines.append(line)
    samples = np.concatenate([*parts, np.zeros(RATE // 2)])
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples + np.random.default_rng(seed).normal(0, 1e-3, len(samples)), RATE)
    return reading
