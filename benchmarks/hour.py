"""An hour of speech at the shell: real-time factor, memory, and every format read by an outside parser.

    python benchmarks/hour.py RECORDING... [--hours 1] [--precision float32]

The recordings are joined, again and again, to a WAV of an hour; `ds2 transcribe --format all` transcribes it with the
default model. Goals on two cores: real-time factor 0.03, 500 MB.
"""

import argparse
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import soundfile
import srt
import textgrid
import webvtt
from praatio import textgrid as praat

from ds2.audio.tensors import read_audio

RATE = 16000  # Hz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--precision", default="float32")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds = join(arguments.recordings, folder / "hour.wav", 3600 * arguments.hours)
        command = [sys.executable, "-m", "ds2", "transcribe", str(folder / "hour.wav"), "--format", "all"]
        command += ["--precision", arguments.precision]
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "--output", name], check=True)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{seconds:.0f} s of sound in {wall:.1f} s, {processor:.1f} s of {os.cpu_count()} processors: ", end="")
        print(f"real-time factor {wall / seconds:.4f}, {after.ru_maxrss / 1024:.0f} MB")
        print(*parsed(folder / "hour"), sep="\n")


def join(recordings: Sequence[Path], path: Path, seconds: float) -> float:
    """Writes the recordings, again and again, until there are so many seconds."""
    sounds = [read_audio(each, RATE)[0].numpy() for each in recordings]
    with soundfile.SoundFile(path, "w", RATE, 1) as file:
        for samples in itertools.cycle(sounds):
            file.write(samples[: round(seconds * RATE) - file.tell()])
            if file.tell() >= seconds * RATE:
                return file.tell() / RATE
    raise AssertionError


def parsed(path: Path) -> list[str]:
    """What each parser finds in the transcripts."""
    subtitles = list(srt.parse(path.with_suffix(".srt").read_text(encoding="utf-8")))
    captions = webvtt.read(str(path.with_suffix(".vtt")))
    [tier] = textgrid.TextGrid.fromFile(path.with_suffix(".TextGrid"))
    grid = praat.openTextgrid(str(path.with_suffix(".TextGrid")), includeEmptyIntervals=False)
    return [
        f"srt: {len(subtitles)} cues, the last ends at {subtitles[-1].end}",
        f"webvtt: {len(captions)} cues, the last ends at {captions[-1].end}",
        f"textgrid: {sum(bool(interval.mark) for interval in tier)} words in {tier.maxTime:.1f} s",
        f"praatio: {len(grid.getTier(grid.tierNames[0]).entries)} words",
    ]


if __name__ == "__main__":
    main()
