"""How well the alignment finds the edges of words whose times are known.

    python benchmarks/boundaries.py

Readings of 50 digits each are joined from FSDD's test split, which no model was trained on, with pauses of 50 to 200 ms
and weak noise; the bundled digits model aligns them. An error is the distance from the edge of the word's recording.
"""

import statistics
import sys
import tempfile
from pathlib import Path

import ds2
from ds2.recognition.align import align

READINGS, LINES, LENGTH = 12, 10, 5
LIMIT = 0.05  # seconds


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from helpers.readings import read_digits

    recognizer = ds2.load("digits", "cpu")
    errors: dict[str, list[float]] = {"start": [], "end": []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(READINGS):
            audio = Path(folder) / f"{seed}.wav"
            reading = read_digits(audio, seed, LINES, LENGTH)
            found = align(recognizer, audio, reading.text).transcript.words
            for word, (start, end) in zip(found, reading.spans, strict=True):
                errors["start"].append(abs(word.start - start))
                errors["end"].append(abs(word.end - end))
    for name, values in {**errors, "both": errors["start"] + errors["end"]}.items():
        near = sum(value <= LIMIT for value in values) / len(values)
        print(f"{name:6} {len(values)} edges, median error {1000 * statistics.median(values):.0f} ms, ", end="")
        print(f"{near:.1%} within {1000 * LIMIT:.0f} ms")


if __name__ == "__main__":
    main()
