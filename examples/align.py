"""Finds when each word of a known text is said, and which words are doubtful.

python examples/align.py [recording "its text"] [--output aligned.TextGrid]
"""

import argparse
from pathlib import Path

import ds2
from ds2.recognition.align import align

READ = Path(__file__).parents[1] / "recipes" / "english" / "audio" / "cv_00139.opus"
TEXT = "applicants must have resided in the country for five years"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", nargs="?", type=Path, default=READ)
    parser.add_argument("text", nargs="?", default=TEXT)
    parser.add_argument("--output", type=Path, help="a TextGrid for Praat")
    asked = parser.parse_args()
    aligned = align(ds2.load("english"), asked.recording, asked.text)
    for word in aligned.transcript.words:
        mark = "?" if word in aligned.doubtful else " "
        print(f"{word.start:6.2f} {word.end:6.2f} {word.confidence:.2f} {mark} {word.text}")
    if asked.output is not None:
        asked.output.write_text(aligned.transcript.to_textgrid())


if __name__ == "__main__":
    main()
