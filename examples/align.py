"""Finds when each word of a known text is said, and which words are doubtful.

python examples/align.py [recording "its text"]
"""

import sys
from pathlib import Path

import ds2
from ds2.recognition.align import align

DIGITS = Path(__file__).parents[1] / "recipes" / "digits" / "audio" / "so762_000260033.opus"


def main() -> None:
    audio, text = sys.argv[1:] if len(sys.argv) > 1 else (DIGITS, "three one seven nine")
    aligned = align(ds2.load("digits"), audio, text)
    for word in aligned.transcript.words:
        mark = "?" if word in aligned.doubtful else " "
        print(f"{word.start:6.2f} {word.end:6.2f} {word.confidence:.2f} {mark} {word.text}")
    Path("aligned.TextGrid").write_text(aligned.transcript.to_textgrid())


if __name__ == "__main__":
    main()
