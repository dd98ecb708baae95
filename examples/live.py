"""Recognises sound while it comes in: partial texts at once, final transcripts at pauses.

python examples/live.py [recording]
"""

import sys
from pathlib import Path

import soundfile

import ds2

DIGITS = Path(__file__).parents[1] / "recipes" / "digits" / "audio" / "so762_000260033.opus"


def main() -> None:
    samples, rate = soundfile.read(sys.argv[1] if len(sys.argv) > 1 else DIGITS, dtype="float32")
    stream = ds2.load("digits-streaming").stream()
    piece = rate // 10  # 0.1 s, as a microphone delivers it
    for start in range(0, len(samples), piece):
        if stream.accept(samples[start : start + piece], rate):  # a pause has ended an utterance
            print("final:", stream.final().text)
        else:
            print("partial:", stream.partial())
    print("final:", stream.final().text)


if __name__ == "__main__":
    main()
