"""What runs a model, compared on one core: seconds of CPU per second of audio, size, memory, texts, start-up.

    python benchmarks/engines.py [--model english] [--recordings 20]

Greedy texts of recordings in recipes/digits, one after the other; each engine in a process of its own. CPU seconds, not
those of the clock, so that other work on the machine disturbs little.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AUDIO = Path(__file__).parents[1] / "recipes" / "digits" / "audio"
ENGINES = ("torch float32", "onnx float32", "onnx int8", "sherpa-onnx float32", "sherpa-onnx int8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="english")
    parser.add_argument("--recordings", type=int, default=20)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    recordings = sorted(AUDIO.glob("so762*.opus"))[: arguments.recordings]
    if arguments.engine:
        print(json.dumps(measured(arguments.engine, arguments.model, arguments.folder, recordings)))
        return
    print("| engine | MB | CPU s per s of audio | of torch's speed | peak MB | start-up CPU s | texts of torch |")
    print("|---|---|---|---|---|---|---|")
    first = None
    for engine in ENGINES:
        with tempfile.TemporaryDirectory() as folder:
            found = run(engine, arguments, Path(folder))
        first = first or found
        same = sum(map(str.__eq__, found["texts"], first["texts"]))
        print(f"| {engine} | {found['size']:.1f} | {found['factor']:.4f} | {first['factor'] / found['factor']:.2f} | "
              f"{found['memory']:.0f} | {found['start']:.2f} | {same} of {len(recordings)} |", flush=True)  # fmt: skip


def run(engine: str, arguments: argparse.Namespace, folder: Path) -> dict:
    """Exports the model where the engine needs it, and measures the engine in a new process."""
    name, weights = engine.split()
    if name != "torch":
        from ds2.export.package import export

        export(arguments.model, folder, "onnx" if name == "onnx" else "sherpa", weights)
    options = ["--model", arguments.model, "--recordings", str(arguments.recordings)]
    command = [sys.executable, __file__, *options, "--engine", engine, "--folder", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def measured(engine: str, model: str, folder: Path, recordings: list[Path]) -> dict:
    """One engine: from its start to the first text, then all recordings."""
    begun = time.process_time()
    hear = sherpa(folder) if engine.startswith("sherpa") else ours(engine, model, folder)
    hear(recordings[0])
    started = time.process_time() - begun
    begun = time.process_time()
    heard = list(map(hear, recordings))
    spent, seconds = time.process_time() - begun, sum(seconds for _, seconds in heard)
    from ds2.bundle import locate

    file = locate(model) if engine.startswith("torch") else folder / "model.onnx"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {"factor": spent / seconds, "start": started, "memory": memory, "size": file.stat().st_size / 1e6}
    return {**figures, "texts": [text for text, _ in heard]}


def ours(engine: str, model: str, folder: Path):
    """A function from a recording to its text and its seconds."""
    from ds2.recognition.options import DecoderOptions
    from ds2.recognition.recognizer import Recognizer

    name = engine.split()[0]
    recognizer = Recognizer.load(
        model if name == "torch" else folder / "model.onnx", "cpu", DecoderOptions(beam=0), name
    )

    def hear(path: Path) -> tuple[str, float]:
        transcript = recognizer.transcribe(path)
        return transcript.text, transcript.duration

    return hear


def sherpa(folder: Path):
    """The same by sherpa-onnx."""
    import sherpa_onnx

    from ds2.data.sound import read_sound

    files = {"model": str(folder / "model.onnx"), "tokens": str(folder / "tokens.txt")}
    recognizer = sherpa_onnx.OfflineRecognizer.from_omnilingual_asr_ctc(**files, num_threads=1)

    def hear(path: Path) -> tuple[str, float]:
        samples, rate = read_sound(path, 16000)
        stream = recognizer.create_stream()
        stream.accept_waveform(rate, samples)
        recognizer.decode_stream(stream)
        return stream.result.text.strip(), len(samples) / rate

    return hear


if __name__ == "__main__":
    main()
