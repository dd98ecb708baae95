"""Training throughput of the named models and of a bare PyTorch stack of the same shape.

    python benchmarks/model.py [--models ds2-tiny ds2-small] [--threads 2] [--repeats 5]

The bare stack is nn.Conv2d, nn.GRU (or nn.RNN) and nn.Linear, without masks and batch normalisation. Both run forward
and backward on the same features, in turn; so does torchaudio's DeepSpeech, fully connected layers around one RNN, with
the hidden size of each model. Then the training of a BN-LSTM against that of an LSTM with batch normalisation of its
inputs alone. Figures are hours of audio per hour.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from ds2.audio.torchaudio_loader import functional
from ds2.model.acoustic import AcousticModel
from ds2.model.cells import Cell
from ds2.model.config import ModelConfig
from ds2.model.presets import PRESETS

UTTERANCES = {"ds2-research": 4, "ds2-deploy": 4, "ds2-small": 16, "ds2-tiny": 16}
OUTPUTS = 29
CELLS: tuple[Cell, Cell] = ("lstm", "bn-lstm")


class Bare(nn.Module):
    """The same shapes without masks and without BN."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        channels, bins, layers = 1, config.frontend.bins, []
        for convolution in config.convolutions:
            padding = (convolution.kernel[0] // 2, convolution.kernel[1] // 2)
            layers += [
                nn.Conv2d(channels, convolution.channels, convolution.kernel, convolution.stride, padding),
                nn.Hardtanh(0.0, 20.0),
            ]
            channels, bins = convolution.channels, convolution.bins(bins)
        self.convolutions = nn.Sequential(*layers)
        kind = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[config.cell]
        options = {"nonlinearity": "relu"} if config.cell == "rnn" else {}
        sizes = [channels * bins] + [config.hidden] * config.recurrent_layers
        self.recurrent = nn.ModuleList(
            kind(size, config.hidden, batch_first=True, bidirectional=config.bidirectional, **options)
            for size in sizes[:-1]
        )
        units = config.fully_connected or config.hidden
        tau = config.lookahead
        self.row = nn.Conv1d(config.hidden, config.hidden, tau + 1, groups=config.hidden) if tau else None
        self.dense = nn.Linear(config.hidden, units) if config.fully_connected else nn.Identity()
        self.output = nn.Linear(units, OUTPUTS)
        self.config = config

    def forward(self, features: Tensor) -> Tensor:
        x = self.convolutions(features.unsqueeze(1)).flatten(1, 2).transpose(1, 2)
        for layer in self.recurrent:
            x = layer(x)[0]
            if self.config.bidirectional:
                x = x[..., : self.config.hidden] + x[..., self.config.hidden :]
        if self.row is not None:
            x = self.row(nn.functional.pad(x.transpose(1, 2), (0, self.config.lookahead))).transpose(1, 2)
        return self.output(nn.functional.hardtanh(self.dense(x), 0.0, 20.0) if self.config.fully_connected else x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=sorted(PRESETS), default=sorted(PRESETS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each utterance")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    gc.disable()
    heard = f"utterances of {arguments.seconds:g} s"
    print(f"| model | {heard} | ours | bare stack | time, ours / bare | torchaudio DeepSpeech |")
    print("|---|---|---|---|---|---|")
    for name in arguments.models:
        compare(name, arguments.repeats, arguments.seconds)
    print("\n| model | lstm | bn-lstm | time, bn-lstm / lstm |\n|---|---|---|---|")
    for name in arguments.models:
        compare_cells(name, arguments.repeats, arguments.seconds)


def compare(name: str, repeats: int, length: float) -> None:
    config, size = ModelConfig.preset(name), UTTERANCES[name]
    frames = round(length / config.frontend.hop)
    features, lengths = torch.randn(size, config.frontend.bins, frames), torch.full((size,), frames)
    ours, bare = AcousticModel(config, OUTPUTS), Bare(config)
    functional()  # makes torchaudio importable beside a CPU-only torch
    from torchaudio.models import DeepSpeech

    theirs = DeepSpeech(config.frontend.bins, config.hidden, OUTPUTS)
    passes = {
        "ours": step_of(ours, lambda: ours.network(features, lengths).logits),
        "bare": step_of(bare, lambda: bare(features)),
        "torchaudio": step_of(theirs, lambda: theirs(features.transpose(1, 2).unsqueeze(1))),
    }
    times = in_turn(passes, repeats)
    speeds = {which: size * length / seconds for which, seconds in times.items()}
    print(
        f"| {name} | {size} | {speeds['ours']:.1f} | {speeds['bare']:.1f} | {times['ours'] / times['bare']:.2f} | "
        f"{speeds['torchaudio']:.1f} |",
        flush=True,
    )


def logits(model: AcousticModel, features: Tensor, lengths: Tensor) -> Tensor:
    return model.network(features, lengths).logits


def compare_cells(name: str, repeats: int, length: float) -> None:
    """The model with either cell."""
    config, size = ModelConfig.preset(name), UTTERANCES[name]
    frames = round(length / config.frontend.hop)
    features, lengths = torch.randn(size, config.frontend.bins, frames), torch.full((size,), frames)
    models = [AcousticModel(replace(config, cell=cell), OUTPUTS) for cell in CELLS]
    passes: dict[str, Callable[[], None]] = {
        cell: step_of(model, partial(logits, model, features, lengths))
        for cell, model in zip(CELLS, models, strict=True)
    }
    times = in_turn(passes, repeats)
    lstm, other = (size * length / times[cell] for cell in CELLS)
    print(f"| {name} | {lstm:.1f} | {other:.1f} | {times['bn-lstm'] / times['lstm']:.2f} |", flush=True)


def step_of(model: nn.Module, forward: Callable[[], Tensor]) -> Callable[[], None]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        forward().square().mean().backward()

    return step


def in_turn(passes: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of each, alternating, after one of each that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(repeats + 1):
        for name, run in passes.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


if __name__ == "__main__":
    main()
