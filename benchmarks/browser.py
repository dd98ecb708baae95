"""The exported page in Chromium: its size, and its seconds of computing for each second of speech.

    PYTHONPATH=tests python -P benchmarks/browser.py [--seconds 60]

The page hears recordings of recipes/digits, one after the other as one file; both searches for each model, in float32.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from export.test_web import served, shown_for_file

from ds2.audio.files import read_audio_array
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer

AUDIO = Path(__file__).parents[1] / "recipes" / "digits" / "audio"
MODELS = ("digits", "digits-streaming", "english")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args().seconds
    print("| model | search | folder, MB | real-time factor | of it the search |\n|---|---|---|---|---|")
    for model in MODELS:
        for search, beam in (("of the bundle", None), ("greedy", 0)):
            recognizer = Recognizer.load(model, "cpu", DecoderOptions(beam=beam))
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                soundfile.write(folder / "speech.wav", speech(seconds, recognizer.sample_rate), recognizer.sample_rate)
                with served(recognizer, folder / "page", "float32") as url:
                    shown = asyncio.run(shown_for_file(url, folder / "speech.wav"))
                size = sum(path.stat().st_size for path in (folder / "page").iterdir()) / 1e6
            print(f"| {model} | {search} | {size:.0f} | {shown['factor']} | {shown['search']} |", flush=True)


def speech(seconds: int, rate: int) -> np.ndarray:
    """(N,) samples."""
    parts = [read_audio_array(path, rate)[0] for path in sorted(AUDIO.glob("so762*.opus"))]
    return np.concatenate(parts)[: seconds * rate]


if __name__ == "__main__":
    main()
