"""The deployed model on a GPU: 5 forward GRU layers of 2560 with a row convolution, fp16 weights.

    python benchmarks/gpu/serve.py --output results.json [--seconds 20]

First csrc/small_gemm.cu against cuBLAS: 2560 x 2560 weights times 1 to 16 columns; the share of a copy's bandwidth,
with enough matrices in turn that none stays in a cache. Then a step of the model, launched and as a CUDA graph. Then
live streams: the real dispatcher and the real steps, on a clock that the steps move on; latency from the end of an
utterance.
"""

import argparse
import heapq
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ds2.model.acoustic import AcousticModel
from ds2.model.config import UNENDED, ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.cuda_graphs import SIZES, GraphedStep
from ds2.model.half_linear import half_linear
from ds2.model.slots import SlotModel
from ds2.serve.dispatch import Dispatcher, Eager, Policy, Work

MODEL = ModelConfig(
    FrontendConfig(16000, power="adaptive"),
    (ConvolutionConfig(32, (41, 11), (2, 2)), ConvolutionConfig(32, (21, 11), (2, 1))),
    recurrent_layers=5,
    hidden=2560,
    bidirectional=False,
    lookahead=19,
    fully_connected=2560,
)
SIZE = 2560
MATRICES = 40  # 524 MB of weights: more than any cache
REPEATS = 30
CHUNK, LONG_CHUNK = 12, 60  # front-end frames of 10 ms
UTTERANCE, CHUNKS = 3.0, 25  # seconds; chunks of 120 ms before the last
LOADS = (10, 100, 300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0, help="on the clock of each run of live streams")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device; there is none here")
    print(torch.cuda.get_device_name())
    results = {"products": products(), "steps": steps(), "streams": streams(arguments.seconds)}
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


def products() -> list[dict[str, float]]:
    bandwidth = copy_bandwidth()
    print(f"\na copy moves {bandwidth / 1e12:.2f} TB/s\n\n| N | ours, us | cuBLAS, us | share of bandwidth | ratio |")
    print("|---|---|---|---|---|")
    weights = [torch.randn(SIZE, SIZE, device="cuda").half() / 50 for _ in range(MATRICES)]
    bias, rows = torch.zeros(SIZE, device="cuda"), []
    for columns in range(1, 17):
        x = torch.randn(columns, SIZE, device="cuda").half()
        expected = x.double() @ weights[0].double().T
        assert torch.allclose(half_linear(x, weights[0], bias).double(), expected, rtol=1e-3, atol=1e-2)
        own = captured(partial(ours, x, weights, bias)) / MATRICES
        theirs = captured(partial(cublas, x, weights)) / MATRICES
        share = 2e6 * SIZE * SIZE / own / bandwidth
        print(f"| {columns} | {own:.2f} | {theirs:.2f} | {share:.0%} | {theirs / own:.2f} |", flush=True)
        rows.append({"columns": columns, "ours": own, "cublas": theirs, "share": share})
    return rows


def ours(x: Tensor, weights: list[Tensor], bias: Tensor) -> list[Tensor]:
    return [half_linear(x, weight, bias) for weight in weights]


def cublas(x: Tensor, weights: list[Tensor]) -> list[Tensor]:
    return [x @ weight.T for weight in weights]


def steps() -> list[dict[str, float]]:
    print("\n| streams | frames | launched, ms | graph, ms |\n|---|---|---|---|")
    model, rows = made(64), []
    graphed = GraphedStep(model)
    for frames in (CHUNK, LONG_CHUNK):
        for size in (1, 4, 10, 16, 64):
            given = chunk(model, size, frames)
            launched = seconds(partial(model.step, *given))
            graph = seconds(partial(graphed, *given))
            print(f"| {size} | {frames} | {1000 * launched:.2f} | {1000 * graph:.2f} |", flush=True)
            rows.append({"streams": size, "frames": frames, "launched": launched, "graph": graph})
    return rows


def streams(duration: float) -> list[dict[str, object]]:
    print("\n| policy | streams | median, ms | 98 %, ms |\n|---|---|---|---|")
    model, rows = made(max(LOADS)), []
    step = GraphedStep(model)
    for size, frames in itertools.product(SIZES, (CHUNK, LONG_CHUNK)):  # captures are no part of a latency
        step(*chunk(model, size, frames))
    for name, policy in (("eager", Eager(64)), ("one by one", Eager(1))):
        for load in LOADS:
            latencies = sorted(simulate(policy, load, model, step, duration)) or [math.inf]  # no utterance was finished
            median, most = (1000 * latencies[int(share * len(latencies))] for share in (0.5, 0.98))
            print(f"| {name} | {load} | {median:.1f} | {most:.1f} |", flush=True)
            rows.append({"policy": name, "streams": load, "median": median, "98%": most})
    return rows


def simulate(
    policy: Policy, load: int, model: SlotModel, step: Callable[..., torch.Tensor], duration: float
) -> list[float]:
    """Seconds from the end of each utterance to the result of its last chunk."""
    dispatcher: Dispatcher[int] = Dispatcher(policy)
    due = [(UTTERANCE * stream / load, stream, 0) for stream in range(load)]  # time, stream, number of the chunk
    heapq.heapify(due)
    now, latencies = 0.0, []
    while now < duration:
        while due and due[0][0] <= now:
            when, stream, number = heapq.heappop(due)
            last = number == CHUNKS
            dispatcher.add(Work(stream, LONG_CHUNK if last else CHUNK, number, when))
            heapq.heappush(due, (when + UTTERANCE / CHUNKS, stream, 0 if last else number + 1))
        batch = dispatcher.take(now)
        if not batch:
            now = due[0][0]
            continue
        given = chunk(model, len(batch), batch[0].shape)
        torch.cuda.synchronize()
        began = time.perf_counter()
        step(*given).cpu()
        now += time.perf_counter() - began
        latencies += [now - work.arrived for work in batch if work.payload == CHUNKS]
    return latencies


def made(slots: int) -> SlotModel:
    torch.manual_seed(0)
    return SlotModel(AcousticModel(MODEL, 29).cuda(), slots, "float16")


def chunk(model: SlotModel, size: int, frames: int) -> tuple[torch.Tensor, ...]:
    numbers = torch.arange(size, device="cuda")
    lengths = torch.full_like(numbers, UNENDED)
    samples = torch.randn(size, model.steps.samples(frames), device="cuda")
    return numbers, torch.full_like(numbers, 1200), lengths, samples


def captured(work: Callable[[], object]) -> float:
    """Microseconds of a replay: without the launches."""
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return 1e6 * seconds(graph.replay)


def seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS + 5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[5:])


def copy_bandwidth() -> float:
    """Bytes a second, read and written."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * len(source) / seconds(lambda: target.copy_(source))


if __name__ == "__main__":
    main()
