"""What runs a model, compared on one core: speed, size, memory, start-up, word errors.

    python benchmarks/engines.py data/english/dev.jsonl [--model english] [--utterances 200]

Greedy texts of utterances that lie evenly in the manifest, one after the other; each engine in a process of its own.
Seconds are those of the CPU, which other work on the machine changes little; for the first text of 5 s of speech also
those of the clock, from the start of the process to its end.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from ds2.audio.files import read_audio_array
from ds2.bundle import read_record
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts, word_errors
from ds2.model.config import ModelConfig
from ds2.utils.byte_products import multiplies_bytes
from ds2.utils.model_names import locate

if TYPE_CHECKING:  # what runs sherpa-onnx alone need not wait for it
    from ds2.recognition.options import EngineName, OfflinePrecision

OTHERS = ("onnx float32", "onnx int8", "sherpa-onnx float32", "sherpa-onnx int8")
RECURRENT = ("torch float32", "torch int8", "native float32")  # of models with such layers
FORWARD = ("native float32", "native int8", "torch float32")  # of others
OWN = ("native", "torch")  # engines that run the bundle
RATE = 16000  # Hz
ROUNDS = 2  # the fastest counts
STARTS = 3  # the median counts
Hear = Callable[[np.ndarray], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--model", default="english")
    parser.add_argument("--utterances", type=int, default=200)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first:
        print(sherpa(arguments.file)(soundfile.read(arguments.first, dtype="float32")[0]))
    elif arguments.engine:
        print(json.dumps(measured(arguments)))
    else:
        table(arguments)


def table(arguments: argparse.Namespace) -> None:
    config = ModelConfig.of(read_record(locate(arguments.model)))
    print(
        "| engine | file, MB | CPU s per s | of the first's speed | peak MB | first text, s | its CPU s | word errors |"
    )
    print("|---|---|---|---|---|---|---|---|")
    first = None
    for engine in (*(RECURRENT if config.recurrent_layers else FORWARD), *OTHERS):
        if engine == "native int8" and not multiplies_bytes():
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = run(engine, arguments, Path(folder))
        first = first or found
        speed = f"{found['factor']:.4f} | {first['factor'] / found['factor']:.2f}"
        start = f"{found['start']:.2f} | {found['start_cpu']:.2f}"
        line = (engine, f"{found['size']:.1f}", speed, f"{found['memory']:.0f}", start, f"{found['errors']:.2%}")
        print(f"| {' | '.join(line)} |", flush=True)


def run(engine: str, arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Exports the model where the engine needs it, and measures the engine in new processes."""
    name, weights = engine.split()
    file = locate(arguments.model)
    if name not in OWN:
        from ds2.export.package import export

        file, *_ = export(arguments.model, folder, "onnx" if name == "onnx" else "sherpa", _precision(weights))
    own = [sys.executable, __file__, str(arguments.manifest), "--engine", engine, "--file", str(file)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    own += ["--utterances", str(arguments.utterances)]
    found = json.loads(subprocess.run(own, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout)
    start, start_cpu = start_up(own, engine, arguments, environment)
    return {**found, "size": file.stat().st_size / 1e6, "start": start, "start_cpu": start_cpu}


def start_up(
    own: list[str], engine: str, arguments: argparse.Namespace, environment: dict[str, str]
) -> tuple[float, float]:
    """Seconds by the clock, and of the CPU, from the start of a process to the text of 5 s of speech."""
    name, precision = engine.split()
    file = own[own.index("--file") + 1]
    with tempfile.NamedTemporaryFile(suffix=".wav") as speech:
        soundfile.write(speech.name, sounds(utterances(arguments))[0][: 5 * RATE], RATE)
        options = ["--engine", name, "--precision", precision if name in OWN else "float32", "--beam", "0"]
        command = [sys.executable, "-m", "ds2", "transcribe", speech.name, "--model", file, *options]
        if name == "sherpa-onnx":
            command = [*own, "--first", speech.name]
        times = []
        for _ in range(STARTS + 1):
            began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
            clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append((clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    clocks, processors = zip(*times[1:], strict=True)
    return statistics.median(clocks), statistics.median(processors)


def measured(arguments: argparse.Namespace) -> dict[str, float]:
    """One engine in this process."""
    chosen = utterances(arguments)
    samples = sounds(chosen)
    hear = sherpa(arguments.file) if arguments.engine.startswith("sherpa") else ours(arguments.engine, arguments.file)
    hear(samples[0])
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        texts = list(map(hear, samples))
        times.append(time.process_time() - began)
    pairs = zip((utterance.text for utterance in chosen), texts, strict=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    errors = sum((word_errors(*pair) for pair in pairs), ErrorCounts())
    return {"factor": min(times) / (sum(map(len, samples)) / RATE), "memory": memory, "errors": errors.rate}


def utterances(arguments: argparse.Namespace) -> list[Utterance]:
    every = read_manifest(arguments.manifest)
    return list(every[:: max(1, len(every) // arguments.utterances)])[: arguments.utterances]


def sounds(chosen: list[Utterance]) -> list[np.ndarray]:
    spans = [utterance.span for utterance in chosen]
    return [read_audio_array(span.path, RATE, span.offset, span.duration)[0] for span in spans]


def ours(engine: str, file: Path) -> Hear:
    from ds2.recognition.options import DecoderOptions
    from ds2.recognition.recognizer import Recognizer

    name, precision = engine.split()
    chosen: EngineName = "native" if name == "native" else "torch" if name == "torch" else "onnx"
    own = _precision(precision) if name in OWN else "float32"
    recognizer = Recognizer.load(file, "cpu", DecoderOptions(beam=0), chosen, own)
    return lambda samples: recognizer.transcribe(samples, RATE).text


def _precision(name: str) -> "OfflinePrecision":
    return "int8" if name == "int8" else "float32"


def sherpa(file: Path) -> Hear:
    import sherpa_onnx

    files = {"model": str(file), "tokens": str(file.with_name("tokens.txt"))}
    recognizer = sherpa_onnx.OfflineRecognizer.from_omnilingual_asr_ctc(**files, num_threads=1)

    def hear(samples: np.ndarray) -> str:
        stream = recognizer.create_stream()
        stream.accept_waveform(RATE, samples)
        recognizer.decode_stream(stream)
        return str(stream.result.text).strip()

    return hear


if __name__ == "__main__":
    main()
