"""CTC on the CPU: forward and backward, log-softmax included, ours and torch's in turn.

    python benchmarks/ctc.py [--threads 1 2] [--repeats 5]

Prints for each size the median times, their ratio, the largest error of the gradient against float64, and the memory
that the passes take in addition to the gradient (the peak of a separate process).
"""

import argparse
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from ds2.ctc import ctc_loss

SIZES = {  # name: utterances, frames, outputs, labels
    "English": (64, 400, 29, 120),
    "bigrams": (64, 400, 1000, 60),
    "Mandarin": (32, 400, 6000, 25),
    "long": (4, 4000, 29, 1000),
}
GOALS = {"English": 15, "bigrams": 8, "Mandarin": 5, "long": 15}  # times faster than torch
ACCURACY_UTTERANCES = 4  # in float64, for the errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", nargs=2, metavar=("SIZE", "IMPLEMENTATION"), help="measured in a separate process")
    arguments = parser.parse_args()
    if arguments.memory:
        size, implementation = arguments.memory
        torch.set_num_threads(arguments.threads[0])
        print(peak_beyond_gradient(batch(*SIZES[size]), ours if implementation == "ours" else torchs))
        return
    print(
        "| size | threads | torch, ms | ours, ms | ratio | goal | gradient error torch / ours | memory torch / ours |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, size in SIZES.items():
        inputs = batch(*size)
        errors = [gradient_error(inputs, function) for function in (torchs, ours)]
        for threads in arguments.threads:
            torch.set_num_threads(threads)
            memory = [in_own_process(name, which, threads) for which in ("torch", "ours")]
            theirs, our = in_turn(inputs, arguments.repeats)
            print(
                f"| {name} B {size[0]}, T {size[1]}, V {size[2]}, L {size[3]} | {threads} | {theirs * 1e3:.0f} | "
                f"{our * 1e3:.1f} | {theirs / our:.1f} | {GOALS[name]} | {errors[0]:.0e} / {errors[1]:.0e} | "
                f"+{memory[0]:.0%} / +{memory[1]:.0%} |",
                flush=True,
            )


def batch(utterances: int, frames: int, outputs: int, labels: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(utterances, frames, outputs, generator=generator)
    targets = torch.randint(1, outputs, (utterances, labels), generator=generator)
    return logits, targets, torch.full((utterances,), frames), torch.full((utterances,), labels)


def ours(logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor) -> Tensor:
    return ctc_loss(logits, targets, frames, labels, reduction="sum")


def torchs(logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor) -> Tensor:
    log_probs = logits.log_softmax(2).transpose(0, 1)
    return torch.nn.functional.ctc_loss(log_probs, targets, frames, labels, reduction="sum")


def gradient(inputs: tuple[Tensor, ...], function: Callable[..., Tensor]) -> Tensor:
    logits = inputs[0].detach().requires_grad_()
    return torch.autograd.grad(function(logits, *inputs[1:]), logits)[0]


def in_turn(inputs: tuple[Tensor, ...], repeats: int) -> tuple[float, float]:
    """Median seconds of torch and of ours, alternating, after one pass of each that is not counted.

    As in timeit, Python's garbage collector is off: its milliseconds would be counted for one of the two.
    """
    gc.collect()
    gc.disable()
    times: dict[Callable[..., Tensor], list[float]] = {torchs: [], ours: []}
    for _ in range(repeats + 1):
        for function, taken in times.items():
            began = time.perf_counter()
            gradient(inputs, function)
            taken.append(time.perf_counter() - began)
    gc.enable()
    return statistics.median(times[torchs][1:]), statistics.median(times[ours][1:])


def gradient_error(inputs: tuple[Tensor, ...], function: Callable[..., Tensor]) -> float:
    few = tuple(tensor[:ACCURACY_UTTERANCES] for tensor in inputs)
    exact = gradient((few[0].double(), *few[1:]), ours)
    return (gradient(few, function).double() - exact).abs().max().item()


def in_own_process(size: str, implementation: str, threads: int) -> float:
    command = [sys.executable, __file__, "--memory", size, implementation, "--threads", str(threads)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peak_beyond_gradient(inputs: tuple[Tensor, ...], function: Callable[..., Tensor]) -> float:
    """Peak memory of a forward and backward pass above what was there before, over the gradient's size, less 1."""
    small = tuple(tensor[:1] for tensor in inputs)
    gradient((small[0][:, :50], small[1][:, :5], small[2].clamp(max=50), small[3].clamp(max=5)), function)  # compile
    before = reset_peak()
    result = gradient(inputs, function)
    return (peak() - before) / (result.numel() * result.element_size()) - 1


def reset_peak() -> int:
    """Resident bytes now, from which the kernel counts the peak anew."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return status("VmRSS")


def peak() -> int:
    return status("VmHWM")


def status(key: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))


if __name__ == "__main__":
    main()
