"""How well subtitles can be read: what their cues do against the guides of broadcasters.

    ds2 transcribe hour.wav --format srt --output . && python benchmarks/cues.py hour.srt [OTHER.srt ...]

A row for each count, a column for each file, of any make.
"""

import argparse
import statistics
from pathlib import Path

import srt

from ds2.recognition.cues import CLAUSE_ENDS, COLUMNS, DANGLERS, SENTENCE_ENDS

FASTEST = 20.0  # characters a second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    files = parser.parse_args().files
    columns = [measure(list(srt.parse(file.read_text(encoding="utf-8")))) for file in files]
    print(f"{'':36}", *(f"{file.stem[-14:]:>14}" for file in files))
    for name in columns[0]:
        print(f"{name:36}", *(f"{column[name]:14.4g}" for column in columns))


def measure(cues: list[srt.Subtitle]) -> dict[str, float]:
    """Count -> how often."""
    lines = [cue.content.split("\n") for cue in cues]
    speeds = [len(cue.content) / (cue.end - cue.start).total_seconds() for cue in cues]
    widths = [sorted(map(len, pair)) for pair in lines if len(pair) == 2]
    return {
        "cues": len(cues),
        "of one word": sum(len(cue.content.split()) == 1 for cue in cues),
        "that end with a sentence": sum(cue.content.endswith(SENTENCE_ENDS) for cue in cues),
        "of more than two lines": sum(len(each) > 2 for each in lines),
        f"lines beyond {COLUMNS} characters": sum(len(line) > COLUMNS for each in lines for line in each),
        'lines that end in "his", "the", "of"': sum(dangles(line) for each in lines for line in each),
        "lines less than half of the other": sum(2 * short < long for short, long in widths),
        f"faster than {FASTEST:g} characters a second": sum(speed > FASTEST for speed in speeds),
        "shorter than a second": sum((cue.end - cue.start).total_seconds() < 1 for cue in cues),
        "median characters a second": statistics.median(speeds),
    }


def dangles(line: str) -> bool:
    """Whether a line ends in a word that belongs to the next one."""
    last = line.split()[-1].lower()
    return not last.endswith((*SENTENCE_ENDS, *CLAUSE_ENDS)) and last in DANGLERS


if __name__ == "__main__":
    main()
