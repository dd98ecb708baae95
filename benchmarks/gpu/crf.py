"""CTC-CRF on a GPU, forward and backward: our kernels and torch's operators in turn, English phones.

    python benchmarks/gpu/crf.py --output results.json

The trigram is that of random sentences. Times are medians of CUDA events; "error" is the largest difference between
the gradients of both. With biphones a score depends on the label before, too.
"""

import argparse
import json
import runpy
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

from ds2.ctc.crf import ctc_crf_loss
from ds2.ctc.trigram import Trigram

SIZES = {  # name: utterances, frames, outputs, labels, biphones
    "phones": (64, 200, 42, 60, False),
    "biphones": (64, 200, 42, 60, True),
    "biphones, 15 s": (64, 500, 42, 150, True),
    "biphones, a wave": (132, 200, 42, 60, True),
}
REPEATS = 10
microseconds = runpy.run_path(str(Path(__file__).with_name("ctc.py")))["microseconds"]
OPERATORS = ("ds2.ctc.crf.crf_library", "ds2.ctc.label_paths.crf_library")  # found nowhere: torch's operators


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device; there is none here")
    print(f"{torch.cuda.get_device_name()}\n")
    print("| size | error | ours, ms | operators, ms | operators / ours | us a frame |\n|---|---|---|---|---|---|")
    results = {name: measure(name, *size) for name, size in SIZES.items()}
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


def measure(name: str, size: int, frames: int, outputs: int, labels: int, depends: bool) -> dict[str, float]:
    generator = torch.Generator("cuda").manual_seed(0)

    def scores(*shape: int) -> Tensor:
        return torch.randn(size, frames, *shape, generator=generator, device="cuda").requires_grad_()

    given = [scores(outputs), scores(outputs - 1, outputs - 1)] if depends else [scores(outputs)]
    targets = torch.randint(1, outputs, (size, labels), generator=generator, device="cuda")
    lengths, sizes = (torch.full((size,), count, device="cuda") for count in (frames, labels))
    sentences = torch.randint(1, outputs, (500, 40), generator=torch.Generator().manual_seed(0)).tolist()
    trigram = Trigram.from_labels(sentences, outputs)

    def gradients() -> tuple[Tensor, ...]:
        losses = ctc_crf_loss(given[0], targets, lengths, sizes, trigram, 0.1, *given[1:])
        return torch.autograd.grad(losses.sum(), given)

    ours, found = microseconds(gradients, REPEATS) / 1000, gradients()
    for kernels in OPERATORS:
        patch(kernels, lambda device: None).start()
    operators, expected = microseconds(gradients, REPEATS) / 1000, gradients()
    patch.stopall()
    error = max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
    print(
        f"| {name}: B {size}, T {frames}, V {outputs}, L {labels} | {error:.0e} | {ours:.2f} | {operators:.1f} | "
        f"{operators / ours:.1f} | {1000 * ours / frames:.1f} |",
        flush=True,
    )
    return {"ours": ours, "operators": operators, "error": error}


if __name__ == "__main__":
    main()
