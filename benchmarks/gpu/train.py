"""Training on a GPU in bf16: ds2-small, ds2-research and the network of recipes/english with its CTC-CRF; share of the
measured matrix peak, memory, hours an hour.

    python benchmarks/gpu/train.py --output results.json [--device cuda] [--batch 64] [--seconds 8]

A step is the trainer's own: features, masks, network under autocast, CTC, backward, clipping, SGD, on batches that lie
in memory. Its work is counted by torch's FlopCounterMode in the passes that it knows, and for the fused recurrent
kernels, which it does not, as 2 operations for each weight and frame, three times over (forward, and both gradients).
The peak is that of a bf16 product of 8192 x 8192 matrices, measured in the same run. `--device cpu` is a dry run.
"""

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ds2.audio.augment import AugmentConfig
from ds2.data.dataset import Batch, collate
from ds2.model.config import ModelConfig
from ds2.train.config import ComputeConfig, DataConfig, OptimizerConfig, TrainConfig
from ds2.train.trainer import Trainer
from ds2.utils.config import load_config

MODELS = ("ds2-small", "ds2-research", "english")
ENGLISH = Path(__file__).parents[2] / "recipes" / "english" / "biphones.toml"
WORDS = 200  # of the texts, with a pronunciation each
STEPS, WARM = 10, 3
PEAK_SIZE = {"cuda": 8192, "cpu": 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device here; --device cpu is a dry run")
    peak = matrix_peak(arguments.device)
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "CPU"
    print(f"{name}; bf16 products reach {peak / 1e12:.2f} TFLOP/s\n")
    print("| model | batch | ms a step | TFLOP/s | share of the peak | memory, GiB | hours of audio an hour |")
    print("|---|---|---|---|---|---|---|")
    results = {model: measure(model, arguments, peak) for model in arguments.models}
    if arguments.output:
        arguments.output.write_text(json.dumps({"device": name, "peak": peak, "models": results}, indent=1) + "\n")


def measure(model: str, arguments: argparse.Namespace, peak: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        trainer, batch = make(model, Path(folder), arguments)
        trainer.model.train()
        work = operations(trainer, batch)
        times = [seconds(trainer, batch, arguments.device) for _ in range(WARM + STEPS)][WARM:]
    taken = statistics.median(times)
    memory = torch.cuda.max_memory_allocated() / 2**30 if arguments.device == "cuda" else float("nan")
    row = {
        "seconds": taken,
        "operations": work,
        "share": work / taken / peak,
        "memory": memory,
        "speed": arguments.batch * arguments.seconds / taken,
    }
    print(
        f"| {model} | {arguments.batch} x {arguments.seconds:g} s | {1000 * taken:.1f} | {work / taken / 1e12:.2f} | "
        f"{row['share']:.0%} | {memory:.1f} | {row['speed']:.0f} |",
        flush=True,
    )
    if arguments.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    return row


def make(model: str, folder: Path, arguments: argparse.Namespace) -> tuple[Trainer, Batch]:
    """A trainer of the preset, and one batch of noise with texts of about 14 characters a second."""
    rng = np.random.default_rng(0)
    english = load_config(TrainConfig, ENGLISH)
    config = english.model if model == "english" else ModelConfig.preset(model)
    rate, length = config.frontend.sample_rate, round(arguments.seconds * config.frontend.sample_rate)
    soundfile.write(folder / "noise.wav", 0.1 * rng.standard_normal(arguments.batch * length), rate, subtype="FLOAT")
    words = ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 4)) for _ in range(WORDS)]
    sounds = [" ".join(rng.choice(["AH", "N", "T", "IY", "S", "K", "EH", "L"], 3)) for _ in words]
    (folder / "lexicon.txt").write_text("".join(map("{} {}\n".format, words, sounds)))
    lines = [
        {
            "audio_filepath": "noise.wav",
            "offset": number * arguments.seconds,
            "duration": arguments.seconds,
            "text": " ".join(rng.choice(words, round(2.8 * arguments.seconds))),
        }
        for number in range(arguments.batch)
    ]
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = DataConfig((folder / "manifest.jsonl",), folder / "manifest.jsonl", workers=0)
    optimizer = OptimizerConfig("sgd")
    if model == "english":
        data, optimizer = dataclasses.replace(data, lexicon=folder / "lexicon.txt"), english.optimizer
    augment = AugmentConfig((1.0,), noise_probability=0.0)
    train = TrainConfig(data, config, augment, optimizer, batch_size=arguments.batch, compute=ComputeConfig("bfloat16"))
    trainer = Trainer(train, folder / "run", arguments.device)
    dataset: Any = trainer.data.train_loader().dataset  # of examples; torch's annotation is that of batches
    return trainer, collate([dataset[0, index] for index in range(arguments.batch)])


def operations(trainer: Trainer, batch: Batch) -> float:
    """Operations of one step; a formula gives the products of the recurrent kernels."""
    frames, layers = 0, trainer.model.recurrent

    def count_frames(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal frames
        frames = output.shape[0] * output.shape[1]

    hook = layers[0].register_forward_hook(count_frames) if len(layers) else None
    with FlopCounterMode(display=False) as counter:
        trainer._train_minibatch([batch])
    if hook is None:
        return counter.get_total_flops()
    hook.remove()
    weights = sum(
        parameter.numel()
        for name, parameter in trainer.model.named_parameters()
        if name in ("output.weight", "fully_connected.weight")
        or (name.startswith("recurrent.") and name.endswith(("input_weight", "recurrent_weight")))
    )
    counts = counter.get_flop_counts()["Global"].items()
    return sum(amount for operation, amount in counts if "conv" in str(operation)) + 3 * 2.0 * frames * weights


def seconds(trainer: Trainer, batch: Batch, device: str) -> float:
    synchronize(device)
    began = time.perf_counter()
    trainer._train_minibatch([batch])
    synchronize(device)
    return time.perf_counter() - began


def matrix_peak(device: str) -> float:
    """Operations a second of a square bf16 product, the best of several."""
    size = PEAK_SIZE[device]
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    times = []
    for _ in range(10):
        synchronize(device)
        began = time.perf_counter()
        a @ b
        synchronize(device)
        times.append(time.perf_counter() - began)
    return 2.0 * size**3 / min(times)


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
