"""Recurrent weights in float32, bfloat16 and int8 on a CPU: speed and word error rate.

    python benchmarks/serve_precision.py [MANIFEST] [--recordings 300]

First the streaming digits model as the server runs it: word error rate, and the time of a step of 120 ms of sound. Then
the recurrent product alone, of that model and of the paper's; int8 is torch's dynamic quantisation. The default
manifest is the test set of the digits recipe.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from digits import manifest

from ds2.metrics import wer
from ds2.model.config import UNENDED, Precision
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.options import DEFAULT_OPTIONS
from ds2.serve.dispatch import DispatchConfig
from ds2.serve.load_test import Recording, load_recordings
from ds2.serve.messages import End, Final, Open, Sound, StreamConfig, WorkerConfig
from ds2.serve.model_worker import Worker, load_setup
from ds2.serve.worker_stream import Setup
from ds2.utils.model_names import locate

SIZES = (1, 8, 32)
REPEATS = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path, nargs="?")
    parser.add_argument("--recordings", type=int, default=300)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recordings = load_recordings(arguments.manifest or manifest("test"))[: arguments.recordings]
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    setups = {name: made(name) for name in precisions}
    print("| weights | WER | " + " | ".join(f"step of {size}, ms" for size in SIZES) + " |\n|---|---|---|---|---|")
    for name, setup in setups.items():
        times = [milliseconds(step(setup, size)) for size in SIZES]
        errors = wer([recording.text for recording in recordings], recognised(setup, recordings))
        print(f"| {name} | {errors:.2%} | " + " | ".join(f"{value:.2f}" for value in times) + " |", flush=True)
    print("\n| product | streams | float32, us | bfloat16, us | int8 dynamic, us |\n|---|---|---|---|---|")
    for hidden in (160, 2560):
        for size in SIZES:
            row = " | ".join(f"{1000 * value:.0f}" for value in products(hidden, size))
            print(f"| {3 * hidden} x {hidden} | {size} | {row} |", flush=True)


def made(precision: Precision) -> Setup:
    model, live, dispatch = locate("digits-streaming"), LiveConfig(), DispatchConfig()
    return load_setup(WorkerConfig(model, "cpu", DEFAULT_OPTIONS, precision, 64, live, dispatch, "torch"))


def recognised(setup: Setup, recordings: list[Recording]) -> list[str]:
    """The worker's transcript of each recording."""
    worker, texts = Worker(setup, DispatchConfig()), []
    for number, recording in enumerate(recordings):
        for command in (Open(number, StreamConfig()), Sound(number, recording.data), End(number)):
            worker.obey(command, 0.0)
        results = []
        while batch := worker.dispatcher.take(0.0):
            results += worker.work(batch, 0.0).results
        while worker.ended:
            results += worker.conclude()
        events = [event for result in results for event in result.events]
        texts.append(" ".join(event.transcript.text for event in events if isinstance(event, Final)))
    return texts


def step(setup: Setup, size: int) -> Callable[[], object]:
    numbers = np.arange(size)
    lengths = np.full_like(numbers, UNENDED)
    samples = np.random.default_rng(0).standard_normal((size, setup.steps.samples(12))).astype(np.float32)
    return lambda: setup.model.advance(numbers, np.full_like(numbers, 1200), lengths, samples)


def products(hidden: int, size: int) -> list[float]:
    """Milliseconds of a GRU's recurrent product: float32, bfloat16, int8."""
    layer = torch.nn.Linear(hidden, 3 * hidden)
    quantised = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(layer), {torch.nn.Linear})
    half, x = torch.nn.Linear(hidden, 3 * hidden).bfloat16(), torch.randn(size, hidden)
    with torch.inference_mode():
        works: list[Callable[[], object]] = [lambda: layer(x), lambda: half(x.bfloat16()), lambda: quantised(x)]
        return [milliseconds(work) for work in works]


def milliseconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS + 5):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times[5:])


if __name__ == "__main__":
    main()
