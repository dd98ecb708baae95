"""Marks the words inside the strings that speechocean762's speakers read, so that they can be composed anew.

    python recipes/digits/align.py MODEL

Adds `words`, [text, start, end] in seconds, to those rows of `audio/pieces.jsonl` that MODEL transcribes rightly.
A word's borders are the quietest moments between its peaks and its neighbours', at most 0.35 s from its own.
"""

import itertools
import json
import sys
from collections.abc import Sequence

import numpy as np
from prepare import AUDIO, RATE, read_rows

import ds2
from ds2.data.audio import read_audio
from ds2.recognizer import Segment
from ds2.transcript import Word

SMOOTHING = RATE // 25  # samples: 40 ms
MARGIN = 0.35  # seconds around a word's peaks, at most


def main() -> None:
    rows = read_rows()
    read = [row for row in rows if row["source"] == "speechocean762"]
    results = ds2.load(sys.argv[1]).transcribe_files(Segment(AUDIO / row["audio_filepath"]) for row in read)
    for row, (segment, transcript) in zip(read, results, strict=True):
        row.pop("words", None)
        if transcript.text == row["text"]:
            row["words"] = borders(read_audio(segment.path, RATE)[0].square().numpy(), transcript.words)
    print(f"{sum('words' in row for row in read)} of {len(read)} strings have their words marked")
    (AUDIO / "pieces.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def borders(power: np.ndarray, words: Sequence[Word]) -> list[list]:
    """[text, start, end] of each word, cut where the smoothed power between two words is lowest."""
    cuts = [0]
    for before, after in itertools.pairwise(words):
        first, last = round(before.end * RATE), max(round(after.start * RATE), round(before.end * RATE) + 1)
        smooth = [power[max(0, at - SMOOTHING) : at + SMOOTHING].sum() for at in range(first, last, RATE // 200)]
        cuts.append(first + smooth.index(min(smooth)) * (RATE // 200))
    cuts.append(len(power))
    return [
        [word.text, round(max(start / RATE, word.start - MARGIN), 3), round(min(end / RATE, word.end + MARGIN), 3)]
        for word, start, end in zip(words, cuts[:-1], cuts[1:], strict=True)
    ]


if __name__ == "__main__":
    main()
