"""Transcribes recordings: text, segments, words with times and confidence, subtitles."""

import argparse
from pathlib import Path

import ds2

READ = Path(__file__).parents[1] / "recipes" / "english" / "audio" / "cv_00139.opus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="*", default=[READ])
    recordings = parser.parse_args().recordings
    recognizer = ds2.load("english", hot=["country=2"])  # a name of the package, or the path of your model
    for path in recordings:
        transcript = recognizer.transcribe(path)
        print(transcript.text)
        for word in transcript.words:
            print(f"{word.start:6.2f} {word.end:6.2f} {word.confidence:.2f} {word.text}")
        print(transcript.to_srt())
    same = recognizer.transcribe(READ.read_bytes())  # bytes, an open file, or samples with their sample_rate
    print(same.segments[0].text)


if __name__ == "__main__":
    main()
