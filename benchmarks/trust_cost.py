"""What confidence, the gate against noise, punctuation and capitals add to a transcription: time and memory.

    python benchmarks/trust_cost.py MANIFEST [--model english] [--utterances 40] [--rounds 3]

Transcribes the first utterances with the whole bundle and with one that lacks calibration and punctuation and is
searched for the best hypothesis alone, in turn, each time in a new process. Prints the medians of the processor's
seconds and of the largest memory, and what is added. Goals: at most 20 % and 15 MB.
"""

import argparse
import dataclasses
import multiprocessing
import resource
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ds2.bundle import Bundle
from ds2.data.manifest import read_manifest
from ds2.recognition import decoding
from ds2.recognition.recognizer import Recognizer
from ds2.utils.devices import use_threads
from ds2.utils.model_names import locate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--model", default="english")
    parser.add_argument("--utterances", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.safetensors"
        without(Bundle.load(arguments.model)).save(bare)
        bundles = {"without": (bare, 1), "with": (locate(arguments.model), decoding.CONFIDENCE_HYPOTHESES)}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in bundles}
        for _ in range(arguments.rounds):
            for name, (path, hypotheses) in bundles.items():
                # A process for each: the largest memory of one never falls.
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    cost = pool.submit(measure, path, hypotheses, arguments.manifest, arguments.utterances)
                    found[name].append(cost.result())
    seconds, megabytes = {}, {}
    for name, costs in found.items():
        seconds[name], megabytes[name] = map(statistics.median, zip(*costs, strict=True))
        print(f"{name:8} {seconds[name]:6.2f} s of the processor, {megabytes[name]:6.0f} MB")
    print(
        f"added    {seconds['with'] / seconds['without'] - 1:6.1%}, {megabytes['with'] - megabytes['without']:6.1f} MB"
    )


def without(bundle: Bundle) -> Bundle:
    """The bundle without calibration and punctuation."""
    return dataclasses.replace(bundle, confidence=None, punctuation=None)


def measure(bundle: Path, hypotheses: int, manifest: Path, utterances: int) -> tuple[float, float]:
    """Seconds of the processor for the utterances, the first one left out, and the largest memory in MB."""
    use_threads(1)
    decoding.CONFIDENCE_HYPOTHESES = hypotheses
    first, *others = [utterance.span for utterance in read_manifest(manifest)[:utterances]]
    recognizer = Recognizer.load(bundle, "cpu")
    list(recognizer.transcribe_files([first]))
    began = time.process_time()
    list(recognizer.transcribe_files(others))
    return time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
