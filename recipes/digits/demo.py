"""Transcribes real recordings of digit strings and compares them with their references, with the word error rate.

The strings are those of speechocean762 that are not in the training set: children and adults, not native speakers.
"""

from prepare import AUDIO, read_rows, stranger_speakers

import ds2
from ds2.metrics import ErrorCounts, word_errors
from ds2.recognition.recognizer import Segment

SHOWN = 12


def main() -> None:
    rows = read_rows()
    strangers = stranger_speakers(rows)
    rows = [row for row in rows if row["source"] == "speechocean762" and row["speaker"] in strangers]
    results = ds2.load().transcribe_files(Segment(AUDIO / row["audio_filepath"]) for row in rows)
    total = ErrorCounts()
    print(f"{'recording':28} {'reference':28} hypothesis")
    for number, (row, (segment, transcript)) in enumerate(zip(rows, results, strict=True)):
        total += word_errors(row["text"], transcript.text)
        if number % (len(rows) // SHOWN) == 0:
            print(f"{segment.path.name:28} {row['text']:28} {transcript.text}")
    print(f"\nWER {total.rate:.1%} on {len(rows)} recordings, {total.reference_length} words, of speakers new to it")


if __name__ == "__main__":
    main()
