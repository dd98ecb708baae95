"""Alignment of long recordings on a GPU: `ctc_align` of the same posteriors there and on the CPU, in turn.

    python benchmarks/gpu/viterbi.py --output results.json

The recordings are those of benchmarks/align.py. The paths must be equal; times include the way of the path to the host.
"""

import argparse
import json
import runpy
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

from ds2.ctc.alignment import Alignment, ctc_align

REPEATS = 5
ALIGN = runpy.run_path(str(Path(__file__).parents[1] / "align.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device; there is none here")
    print(f"{torch.cuda.get_device_name()}\n")
    print("| recording | labels | CPU, ms | GPU, ms | CPU / GPU | memory, MB | equal |\n|---|---|---|---|---|---|---|")
    results = {name: measure(name, frames) for name, frames in ALIGN["FRAMES"].items()}
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


def measure(name: str, frames: int) -> dict[str, float]:
    log_probs, _, labels = ALIGN["recording"](frames)
    on_gpu = log_probs.cuda()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    expected, found = ctc_align(log_probs, labels), ctc_align(on_gpu, labels)
    row = {
        "cpu": milliseconds(log_probs, labels),
        "gpu": milliseconds(on_gpu, labels),
        "memory": (torch.cuda.max_memory_allocated() - held) / 1e6,
        "equal": equal(expected, found),
    }
    print(
        f"| {name} | {len(labels)} | {row['cpu']:.1f} | {row['gpu']:.1f} | {row['cpu'] / row['gpu']:.1f} | "
        f"{row['memory']:.0f} | {'yes' if row['equal'] else 'NO'} |",
        flush=True,
    )
    return row


def equal(a: Alignment, b: Alignment) -> bool:
    return a.log_prob == b.log_prob and torch.equal(a.starts, b.starts) and torch.equal(a.ends, b.ends)


def milliseconds(log_probs: Tensor, labels: Tensor) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        ctc_align(log_probs, labels)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


if __name__ == "__main__":
    main()
