"""Alignment of long recordings: time and memory, ours beside ctc-segmentation (PyPI) and torchaudio's forced_align.

    pip install ctc-segmentation; python benchmarks/align.py

Each run has a separate process. All get the same simulated posteriors, 25 frames a second, with clear text.
torchaudio's runs only where its compiled extension loads; it needs a byte for each frame and state: 5 GB for an hour.
"""

import itertools
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from torch import Tensor

OUTPUTS = 29
FRAMES = {"1 minute": 1_500, "10 minutes": 15_000, "1 hour": 90_000}
LABELS_A_FRAME = 2 / 3  # a fast reader
LIMIT = 600  # seconds for one run


def main() -> None:
    print("| recording | labels | implementation | seconds | memory, MB | tokens within 2 frames |")
    print("|---|---|---|---|---|---|")
    for (name, frames), implementation in itertools.product(FRAMES.items(), ("ds2", "ctc-segmentation", "torchaudio")):
        command = [sys.executable, __file__, str(frames), implementation]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
            line = result.stdout.strip() or f"- | - | {result.stderr.strip().splitlines()[-1][:90]}"
        except subprocess.TimeoutExpired:
            line = f"over {LIMIT} | - | -"
        print(f"| {name} | {round(frames * LABELS_A_FRAME)} | {implementation} | {line} |", flush=True)


def measure(frames: int, implementation: str) -> None:
    align = {"ds2": ours, "ctc-segmentation": segmentation, "torchaudio": torchaudios}[implementation]
    warm, _, labels = recording(200)
    align(warm, labels)  # compiles
    log_probs, starts, labels = recording(frames)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    found = align(log_probs, labels)
    seconds = time.perf_counter() - began
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    share = np.mean(np.abs(np.asarray(found) - starts) <= 2)
    print(f"{seconds:.1f} | {memory:.0f} | {share:.1%}")


def recording(frames: int) -> tuple[Tensor, np.ndarray, Tensor]:
    """(T, V) log-probabilities in which each label is 3 nats above noise; first frame of each label; (L,) labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(1, OUTPUTS, (round(frames * LABELS_A_FRAME),), generator=generator)
    labels = torch.where(labels == labels.roll(1), labels % (OUTPUTS - 1) + 1, labels)  # no label twice in a row
    chosen = torch.randperm(frames, generator=generator)[: len(labels)].sort().values
    scores = torch.randn(frames, OUTPUTS, generator=generator)
    scores[:, 0] += 4.0
    scores[chosen, labels] += 8.0
    return scores.log_softmax(1), chosen.numpy(), labels


def ours(log_probs: Tensor, labels: Tensor) -> np.ndarray:
    from ds2.ctc.alignment import ctc_align

    return ctc_align(log_probs, labels).starts.numpy()


def segmentation(log_probs: Tensor, labels: Tensor) -> np.ndarray:
    from ctc_segmentation import CtcSegmentationParameters, ctc_segmentation

    config = CtcSegmentationParameters(char_list=[str(output) for output in range(OUTPUTS)], index_duration=1.0)
    config.blank = 0
    truth = np.concatenate([[-1], labels.numpy()]).reshape(-1, 1).astype(np.int64)
    timings, _, _ = ctc_segmentation(config, log_probs.numpy(), truth)
    return timings[1:]


def torchaudios(log_probs: Tensor, labels: Tensor) -> np.ndarray:
    from ds2.audio.torchaudio_loader import functional

    path, _ = functional().forced_align(log_probs[None], labels[None].int(), blank=0)
    return np.flatnonzero((path[0] != 0) & (path[0] != path[0].roll(1)))


if __name__ == "__main__":
    measure(int(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 1 else main()
