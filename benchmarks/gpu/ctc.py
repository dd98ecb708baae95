"""CTC on a GPU: forward and backward, log-softmax included; ours, torch's native kernels and cuDNN's in turn.

    python benchmarks/gpu/ctc.py --output results.json

Checks the kernels against float64 first. Times are medians of CUDA events; "captured" replays our pass from a CUDA
graph: without the launches. The limit is one read and one write of the logits at the bandwidth of a copy.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ds2.ctc import ctc_loss

SIZES = {  # name: utterances, frames, outputs, labels, type
    "English": (64, 400, 29, 120, torch.float32),
    "English bf16": (64, 400, 29, 120, torch.bfloat16),
    "bigrams": (64, 400, 1000, 60, torch.float32),
    "Mandarin": (32, 400, 6000, 25, torch.float32),
    "Mandarin bf16": (32, 400, 6000, 25, torch.bfloat16),
    "long": (4, 4000, 29, 1000, torch.float32),
}
REPEATS = 50
COPY = 1 << 30  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device; there is none here")
    bandwidth = copy_bandwidth()
    print(f"{torch.cuda.get_device_name()}; a copy moves {bandwidth / 1e12:.2f} TB/s\n")
    print("| size | error | ours, us | captured, us | torch native, us | cuDNN, us | limit, us | native / ours |")
    print("|---|---|---|---|---|---|---|---|")
    results = {name: measure(name, *size, bandwidth) for name, size in SIZES.items()}
    if arguments.output:
        arguments.output.write_text(json.dumps({"bandwidth": bandwidth, "sizes": results}, indent=1) + "\n")


def measure(name: str, size: int, frames: int, outputs: int, labels: int, kind: torch.dtype, bandwidth: float) -> dict:
    generator = torch.Generator("cuda").manual_seed(0)
    logits = torch.randn(size, frames, outputs, generator=generator, device="cuda").to(kind).requires_grad_()
    targets = torch.randint(1, outputs, (size, labels), generator=generator, device="cuda")
    rest = (targets, torch.full((size,), frames, device="cuda"), torch.full((size,), labels, device="cuda"))
    on_host = tuple(tensor.cpu().int() for tensor in rest)
    row = {
        "error": error(logits, rest),
        "ours": microseconds(lambda: passes(ours, logits, rest)),
        "captured": microseconds(captured(lambda: passes(ours, logits, rest))),
        "native": microseconds(lambda: passes(native, logits, rest)),
        "cudnn": microseconds(lambda: passes(native, logits, on_host)) if labels < 256 else 0.0,  # it takes no more
        "limit": 2e6 * logits.numel() * logits.element_size() / bandwidth,
    }
    cudnn = f"{row['cudnn']:.0f}" if row["cudnn"] else "-"
    print(
        f"| {name} B {size}, T {frames}, V {outputs}, L {labels} | {row['error']:.0e} | {row['ours']:.0f} | "
        f"{row['captured']:.0f} | {row['native']:.0f} | {cudnn} | {row['limit']:.1f} | "
        f"{row['native'] / row['ours']:.1f} |",
        flush=True,
    )
    return row


def ours(logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor) -> Tensor:
    return ctc_loss(logits, targets, frames, labels, reduction="sum")


def native(logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor) -> Tensor:
    """torch's own kernels; cuDNN's when targets are 32-bit, concatenated and on the host."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    row = targets.flatten() if targets.dtype == torch.int32 else targets
    return torch.nn.functional.ctc_loss(wide.log_softmax(2).transpose(0, 1), row, frames, labels, reduction="sum")


def passes(function: Callable[..., Tensor], logits: Tensor, rest: tuple[Tensor, ...]) -> Tensor:
    return torch.autograd.grad(function(logits, *rest), logits)[0]


def captured(work: Callable[[], Tensor]) -> Callable[[], None]:
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def microseconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats + 5):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        began.record()
        work()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended) * 1000)
    return statistics.median(times[5:])


def error(logits: Tensor, rest: tuple[Tensor, ...]) -> float:
    """Largest error of the gradient of the first utterances, against torch's CPU loss in float64."""
    few = tuple(tensor[:2] for tensor in (logits.detach(), *rest))
    scores = few[0].double().cpu().requires_grad_()
    expected = passes(native, scores, tuple(tensor.cpu() for tensor in few[1:]))
    found = passes(ours, few[0].clone().requires_grad_(), few[1:])
    return float((found.double().cpu() - expected).abs().max())


def copy_bandwidth() -> float:
    """Bytes a second, read and written."""
    source = torch.empty(COPY, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPY / (microseconds(lambda: target.copy_(source)) * 1e-6)


if __name__ == "__main__":
    main()
