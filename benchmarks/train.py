"""Training end to end, compared with its own bare loop and with a plain loop of torch's layers.

    python benchmarks/train.py [--config FILE] [--batches 15] [--repeats 5]

    ours, end to end     `ds2 train`'s own trainer: reading, augmentation in a worker, model, CTC, optimiser
    ours, ready tensors  the same trainer on batches that lie in memory: what the pipeline costs is the difference
    plain, both ways     the same shapes as nn.Conv2d, nn.BatchNorm2d, before each recurrent layer but the first
                         nn.BatchNorm1d over all frames, a packed bidirectional nn.GRU whose directions are summed,
                         torch's CTC loss; the same optimiser, clipping, data and augmentation

The default configuration is that of the digits recipe, whose data is composed at the first use. All four loops take
turns. The figures are medians of utterances a second on one thread, by the clock and by the processor time of the
training process, which does not count other programs. Batches that a worker prepared during another loop's turn are
consumed before the clocks start.
"""

import argparse
import dataclasses
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from digits import RECIPE, manifest
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ds2.data.dataset import Batch
from ds2.model.config import ModelConfig
from ds2.model.frontend import Frontend
from ds2.train.config import TrainConfig
from ds2.train.data import ending_workers
from ds2.train.optimizer import make_optimizer
from ds2.train.trainer import Trainer
from ds2.utils.config import load_config

PREFETCHED = 4  # batches that may be ready when a turn begins


class PlainLayer(nn.Module):
    """Sequence-wise BN, then a GRU in both directions, summed."""

    def __init__(self, inputs: int, hidden: int, bidirectional: bool, first: bool):
        super().__init__()
        self.norm = None if first else nn.BatchNorm1d(inputs)
        self.gru = nn.GRU(inputs, hidden, bidirectional=bidirectional)
        self.hidden = hidden

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(T, B, D) -> (T, B, H)."""
        if self.norm is not None:
            x = self.norm(x.flatten(0, 1)).view(x.shape)
        x, _ = pad_packed_sequence(self.gru(pack_padded_sequence(x, lengths, enforce_sorted=False))[0])
        return x[..., : self.hidden] + x[..., self.hidden :] if self.gru.bidirectional else x


class Plain(nn.Module):
    """The same shapes from torch's own layers."""

    def __init__(self, config: ModelConfig, outputs: int):
        super().__init__()
        self.convolutions, self.norms = nn.ModuleList(), nn.ModuleList()
        self.strides = [layer.stride[1] for layer in config.convolutions]
        channels, bins = 1, config.frontend.bins
        for layer in config.convolutions:
            padding = (layer.kernel[0] // 2, layer.kernel[1] // 2)
            self.convolutions.append(nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride, padding))
            self.norms.append(nn.BatchNorm2d(layer.channels))
            channels, bins = layer.channels, layer.bins(bins)
        sizes = [channels * bins] + [config.hidden] * config.recurrent_layers
        self.recurrent = nn.ModuleList(
            PlainLayer(inputs, hidden, config.bidirectional, number == 0)
            for number, (inputs, hidden) in enumerate(itertools.pairwise(sizes))
        )
        self.norm = nn.BatchNorm1d(config.hidden)
        self.output = nn.Linear(config.hidden, outputs, bias=False)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, F, T), (B,) -> (T', B, V) log-probabilities, (B,)."""
        x = features.unsqueeze(1)
        for convolution, norm, stride in zip(self.convolutions, self.norms, self.strides, strict=True):
            lengths = (lengths + stride - 1) // stride
            for stage in (convolution, norm, nn.Hardtanh(0.0, 20.0)):
                x = stage(x)
                mask = torch.arange(x.shape[3]) >= lengths.unsqueeze(1)
                x = x.masked_fill(mask[:, None, None, :], 0.0)
        x = x.flatten(1, 2).permute(2, 0, 1)
        for layer in self.recurrent:
            x = layer(x, lengths)
        return self.output(self.norm(x.flatten(0, 1)).view(x.shape)).log_softmax(2), lengths


class PlainTrainer:
    def __init__(self, config: TrainConfig, frontend: Frontend, outputs: int):
        self.model, self.frontend = Plain(config.model, outputs), frontend
        self.clip_norm = config.optimizer.clip_norm
        self.optimizer = make_optimizer(self.model, config.optimizer)
        self.loss = nn.CTCLoss(reduction="sum", zero_infinity=True)

    def step(self, batch: Batch) -> None:
        with torch.no_grad():
            features, lengths = self.frontend(batch.samples, batch.sample_lengths)
        log_probs, lengths = self.model(features, lengths)
        loss = self.loss(log_probs, batch.targets, lengths, batch.target_lengths) / len(batch.utterances)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], help="as in ds2 train")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.config is None:
        manifest("train")
        arguments.config = RECIPE / "train.toml"
    config = load_config(TrainConfig, arguments.config, ["data.workers=1", *arguments.set])
    with tempfile.TemporaryDirectory() as folder:
        rates = measure(dataclasses.replace(config, checkpoint_minutes=0.0), Path(folder), arguments)
    print("| loop | utterances/s by the clock, median (lowest to highest) | by processor time |\n|---|---|---|")
    for name, found in rates.items():
        clock, processor = zip(*found, strict=True)
        print(
            f"| {name} | {statistics.median(clock):.1f} ({min(clock):.1f} to {max(clock):.1f}) | "
            f"{statistics.median(processor):.1f} |"
        )
    for number, by in enumerate(("by the clock", "by processor time")):
        medians = {name: statistics.median(rate[number] for rate in found) for name, found in rates.items()}
        pipeline = medians["ours, end to end"] / medians["ours, ready tensors"]
        print(f"\n{by}:\nend to end / ready tensors: {pipeline:.2f}")
        for way in ("end to end", "ready tensors"):
            print(f"ours / plain, {way}: {medians[f'ours, {way}'] / medians[f'plain, {way}']:.2f}")


def measure(config: TrainConfig, folder: Path, arguments: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    trainer = Trainer(config, folder)
    trainer.model.train()
    plain = PlainTrainer(config, trainer.model.frontend, len(trainer.data.tokenizer))
    trainer.data.sampler.begin(1)  # an epoch in random order
    ready = list(itertools.islice(trainer.data.train_loader(), arguments.batches))
    loops: dict[str, tuple[Callable[[Batch], None], Iterator[Batch] | None]] = {
        "ours, ready tensors": (lambda batch: trainer._train_minibatch([batch]), None),
        "ours, end to end": (lambda batch: trainer._train_minibatch([batch]), endless(trainer)),
        "plain, ready tensors": (plain.step, None),
        "plain, end to end": (plain.step, endless(trainer)),
    }
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
    for turn in range(arguments.repeats + 1):
        for name, (step, source) in loops.items():
            if source is not None:
                for _ in range(PREFETCHED):
                    step(next(source))
            rate = timed(step, ready if source is None else itertools.islice(source, len(ready)))
            if turn:  # the first warms up
                rates[name].append(rate)
    return rates


def endless(trainer: Trainer) -> Iterator[Batch]:
    """Batches of one random epoch, again and again, from a separate worker."""
    with ending_workers(trainer.data.train_loader()) as loader:
        while True:
            yield from loader


def timed(step: Callable[[Batch], None], batches: Iterable[Batch]) -> tuple[float, float]:
    """Utterances a second, by the clock and by the processor time of this process."""
    count, began, spent = 0, time.perf_counter(), time.process_time()
    for batch in batches:
        step(batch)
        count += len(batch.utterances)
    return count / (time.perf_counter() - began), count / (time.process_time() - spent)


if __name__ == "__main__":
    main()
