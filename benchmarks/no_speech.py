"""False words a minute of what is no speech, of each bundled model, without and with its calibration.

    python benchmarks/no_speech.py [RECORDING-OR-FOLDER...] [--models digits,digits-streaming] [--seed 100]

Synthesised silence, noise, tones and music (`ds2/audio/no_speech.py`; another seed than `ds2 calibrate` fits), then the
recordings; a model that can stream is measured live as well, by its final results.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from ds2.audio.no_speech import sounds
from ds2.audio.tensors import read_audio
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.recordings import find_audio
from ds2.utils.model_names import MODELS

SECONDS = 20.0  # of each synthesised sound
AT_ONCE = 0.2  # seconds of sound that a live stream gets at once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*")
    parser.add_argument("--models", default=",".join(sorted(path.stem for path in MODELS.glob("*.safetensors"))))
    parser.add_argument("--seed", type=int, default=100)
    arguments = parser.parse_args()
    print(f"{'model':18} {'':8} {'sounds':12} {'minutes':>8} {'before':>8} {'after':>8}   words a minute")
    for model in arguments.models.split(","):
        recognizer = Recognizer.load(model)
        rate = recognizer.sample_rate
        groups = {"synthesised": [samples for _, samples in sounds(SECONDS, rate, arguments.seed)]}
        if arguments.recordings:
            groups["recorded"] = [read_audio(path, rate)[0] for path in find_audio(arguments.recordings)]
        ways = ["offline", "live"] if recognizer.model.config.streams else ["offline"]
        for way in ways:
            for name, group in groups.items():
                minutes = sum(map(len, group)) / rate / 60
                before, after = (count(recognizer, way, group, judged) / minutes for judged in (False, True))
                print(f"{model:18} {way:8} {name:12} {minutes:8.1f} {before:8.2f} {after:8.2f}", flush=True)


def count(recognizer: Recognizer, way: str, group: list[Tensor], judged: bool) -> int:
    """Words in the transcripts of all the sounds."""
    builder = recognizer.builder
    recognizer.builder = builder if judged else replace(builder, judge=None)
    transcribed = live if way == "live" else offline
    words = sum(transcribed(recognizer, samples) for samples in group)
    recognizer.builder = builder
    return words


def offline(recognizer: Recognizer, samples: Tensor) -> int:
    return len(recognizer.transcribe(samples, recognizer.sample_rate).words)


def live(recognizer: Recognizer, samples: Tensor) -> int:
    return sum(finals(recognizer, samples))


def finals(recognizer: Recognizer, samples: Tensor) -> Iterator[int]:
    """Words in the final results of a stream, as its sound comes in."""
    stream = recognizer.stream()
    for array in samples.split(round(AT_ONCE * recognizer.sample_rate)):
        stream.accept(array, recognizer.sample_rate)
        yield sum(len(transcript.words) for transcript in stream.results())
    yield sum(len(transcript.words) for transcript in stream.finish())


if __name__ == "__main__":
    main()
