"""Shape, parameters, operations and context of each layer of a model, from its configuration alone."""

import math
from dataclasses import dataclass

import torch

from ds2.model.acoustic import AcousticModel
from ds2.model.config import ModelConfig


@dataclass(frozen=True)
class LayerSummary:
    """One line of the table."""

    name: str
    shape: str  # of its output for each frame
    parameters: int
    operations: float  # multiplications and additions for one second of audio
    context: str  # seconds of audio before and after the present frame that reach its output, counted from the samples


def summarize(config: ModelConfig, outputs: int) -> list[LayerSummary]:
    """The layers of a model with that many outputs, in order."""
    table = _Table(config, outputs)
    size = table.add_convolutions()
    rate = 1 / config.frame_seconds
    # Recurrent layers hear all frames before; a backward direction and the lookahead wait for those after.
    table.after += max(0, config.chunk - 1) * config.frame_seconds
    for number in range(config.recurrent_layers):
        table.before = math.inf
        products = len(config.spec.gates) * config.hidden * (size + config.hidden) * (1 + config.bidirectional)
        size = config.hidden
        table.add(f"recurrent.{number}", f"{size}", rate * 2 * products)
    if config.lookahead:
        table.after += config.lookahead * config.frame_seconds
        table.add("lookahead", f"{size}", rate * 2 * size * (config.lookahead + 1))
    if config.fully_connected:
        table.add("fully_connected", f"{config.fully_connected}", rate * 2 * size * config.fully_connected)
    units = config.fully_connected or size
    table.add("output", f"{outputs}", rate * 2 * units * outputs)
    if config.random_walk:
        table.add("random_walk", f"{outputs}", rate * 2 * outputs * (2 * config.random_walk + 1))
    if config.phones:
        table.add("phone_output", f"{config.phones}", rate * 2 * size * config.phones)
    if config.biphones:
        table.add("biphones", f"{config.pairs}", rate * 2 * config.biphones * (size + config.pairs))
    return table.layers


class _Table:
    """The layers so far, and the seconds before and after a frame that reach the last of them."""

    def __init__(self, config: ModelConfig, outputs: int):
        with torch.device("meta"):
            self.model = AcousticModel(config, outputs)
        self.config, self.layers = config, list[LayerSummary]()
        frontend = config.frontend
        self.before, self.after = 0.0, frontend.window_samples / frontend.sample_rate
        points = frontend.window_samples * math.log2(frontend.window_samples)
        self.add("frontend", f"{frontend.bins}", 5 * points / frontend.hop_seconds)

    def add(self, name: str, shape: str, operations: float) -> None:
        """A layer that hears what the one below hears, and `before` and `after`."""
        parameters = sum(parameter.numel() for parameter in self.model.get_submodule(name).parameters())
        context = f"{self.before:.3f} before, {self.after:.3f} after"
        if math.isinf(self.before):
            context = "all" if self.config.needs_end else f"all before, {self.after:.3f} after"
        self.layers.append(LayerSummary(name, shape, parameters, operations, context))

    def add_convolutions(self) -> int:
        """Adds the layers below the recurrent ones, with their gates -> the units of a frame of the last."""
        channels, bins, hop = 1, self.config.frontend.bins, self.config.frontend.hop_seconds
        for number, layer in enumerate(self.config.convolutions):
            self.before, self.after = self.before + layer.before * hop, self.after + layer.after * hop
            taps, inputs = channels * (layer.kernel[0] or bins) * layer.kernel[1], channels * bins
            channels, bins, hop = layer.channels, layer.bins(bins), hop * layer.stride[1]
            # Every output frame costs its kernel's multiplications and additions.
            operations = 2 * taps * channels * bins / hop
            if layer.bottleneck:  # two factors, whose kernels together are one frame longer
                operations = (layer.kernel[1] + 1) * layer.bottleneck * (inputs + channels) / hop
            self.add(f"convolutions.{number}", f"{channels} x {bins}", operations)
            if layer.gate:
                self.before = math.inf
                self.add(f"gates.{number}", f"{channels} x {bins}", 2 * 2 * channels * layer.gate / hop)
        return channels * bins


def latency(config: ModelConfig) -> float | None:
    """Most seconds of audio after a sound that its output frame needs; None: it needs the whole utterance."""
    if config.needs_end or config.frontend.power != "adaptive":
        return None
    frames, stride = 0, 1
    for convolution in config.convolutions:
        frames += convolution.after * stride
        stride *= convolution.stride[1]
    window = config.frontend.window_samples / config.frontend.sample_rate
    return window + config.frontend.hop_seconds * (frames + (max(0, config.chunk - 1) + config.lookahead) * stride)
