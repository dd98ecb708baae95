"""A step of live streams through the paper's deployed model, ds2-deploy, on a CPU: float32 and int8.

    python benchmarks/deploy_step.py [--threads 2] [--precision float32,int8]

One stream in steps of 40 ms, which must take less than 40 ms, and four in steps of 120 ms, less than 120 ms. The median
by the clock, and of the CPU. Weights are random: they do not change the time.
"""

import argparse
import statistics
import time

import torch

from ds2.model.acoustic import AcousticModel
from ds2.model.config import UNENDED, ModelConfig
from ds2.model.presets import PRESETS
from ds2.model.slots import SlotModel
from ds2.utils.config import from_dict

STEPS, WARM = 12, 3
LOADS = ((1, 0.04), (4, 0.12))  # streams, seconds of a step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="float32,int8")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    config = from_dict(ModelConfig, PRESETS["ds2-deploy"], "ds2-deploy")
    with torch.device("meta"):  # drawing 100 million weights as in training takes a minute
        model = AcousticModel(config, 29).eval()
    model = model.to_empty(device="cpu")
    for values in model.state_dict().values():
        values.uniform_(0.01, 0.02)
    print("| weights | streams | step, ms | takes, ms | of the CPU, ms |\n|---|---|---|---|---|")
    for precision in arguments.precision.split(","):
        slots = SlotModel(model, 4, precision)
        for streams, seconds in LOADS:
            clock, cpu = step_times(slots, streams, seconds)
            print(f"| {precision} | {streams} | {1000 * seconds:.0f} | {clock:.0f} | {cpu:.0f} |", flush=True)


def step_times(model: SlotModel, streams: int, seconds: float) -> tuple[float, float]:
    """Median milliseconds of a step, by the clock and of the CPU."""
    frames = round(seconds / model.config.frontend.hop_seconds)
    slots, lengths = torch.arange(streams), torch.full((streams,), UNENDED)
    samples = 0.1 * torch.randn(streams, model.steps.samples(frames))
    times = []
    for step in range(WARM + STEPS):
        began, cpu = time.perf_counter(), time.process_time()
        model.step(slots, torch.full((streams,), step * frames), lengths, samples)
        times.append((time.perf_counter() - began, time.process_time() - cpu))
    clock, spent = zip(*times[WARM:], strict=True)
    return 1000 * statistics.median(clock), 1000 * statistics.median(spent)


if __name__ == "__main__":
    main()
