"""A live step of a model and a whole recording in each engine, in turn, on one core.

    OMP_NUM_THREADS=1 python benchmarks/live_step.py [--model english] [--streams 1] [--rounds 200]

Each round takes one step and hears one recording of --seconds with every engine; the script prints the least and the
median milliseconds of the processor.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

from ds2.model.config import UNENDED
from ds2.model.steps import Steps
from ds2.recognition.engine import Engine, load_engine
from ds2.utils.devices import use_threads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="english")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    engines = {name: load_engine(arguments.model, name, "cpu")[0] for name in ("native", "torch", "onnx")
               if name == "native" or find_spec({"onnx": "onnxruntime"}.get(name, name))}  # fmt: skip
    if not engines["native"].config.recurrent_layers:
        engines["native int8"] = load_engine(arguments.model, "native", "cpu", "int8", live=True)[0]
    use_threads(1)
    samples = noise(round(arguments.seconds * engines["native"].config.frontend.sample_rate))
    actions: dict[str, Callable[[], object]] = {}
    for name, engine in engines.items():
        actions[f"{name} step"] = steps(engine, arguments.streams)
        actions[f"{name} recording"] = partial(engine.log_probs, [samples])
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(arguments.rounds):
        for name, action in actions.items():
            began = time.process_time()
            action()
            times[name].append(1e3 * (time.process_time() - began))
    for name, found in times.items():
        print(f"{name:24} least {min(found):7.2f} ms, median {np.median(found):7.2f} ms")


def steps(engine: Engine, streams: int) -> Callable[[], object]:
    """Moves so many streams on by a chunk each."""
    sizes, slots, numbers = Steps.of(engine.config), engine.slots(streams, "float32", phones=True), np.arange(streams)
    samples = np.stack([noise(sizes.samples(sizes.frames))] * streams)
    positions, lengths = np.zeros(streams, np.int64), np.full(streams, UNENDED)

    def step() -> None:
        slots.advance(numbers, positions, lengths, samples)
        positions[:] += sizes.frames

    return step


def noise(size: int) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.1, size).astype(np.float32)


if __name__ == "__main__":
    main()
