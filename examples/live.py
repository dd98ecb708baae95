"""Recognises sound while it comes in: partial texts at once, final transcripts at pauses.

python examples/live.py [recording]
"""

import argparse
from pathlib import Path

import soundfile

import ds2

READ = Path(__file__).parents[1] / "recipes" / "english" / "audio" / "libri_00088.opus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", nargs="?", type=Path, default=READ)
    samples, rate = soundfile.read(parser.parse_args().recording, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1)
    stream = ds2.load("english").stream()
    size = rate // 10  # 0.1 s, as a microphone delivers it
    for start in range(0, len(mono), size):
        stream.accept(mono[start : start + size], rate)
        for transcript in stream.results():  # segments that pauses have ended
            print("final:", transcript.text)
        print("partial:", stream.partial())
    for transcript in stream.finish():
        print("final:", transcript.text)


if __name__ == "__main__":
    main()
