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
    with torch.device("meta"):
        model = AcousticModel(config, outputs)
    parameters = {
        name: sum(parameter.numel() for key, parameter in model.named_parameters() if f"{key}.".startswith(f"{name}."))
        for name, _ in model.named_modules()
        if name
    }
    frontend = config.frontend
    rate, window = 1 / frontend.hop_seconds, frontend.window_samples
    before, after = 0.0, window / frontend.sample_rate
    layers = [
        LayerSummary("frontend", f"{frontend.bins}", 0, rate * 5 * window * math.log2(window), _context(before, after))
    ]
    # Convolutions: `rate` output frames a second, each of which costs its kernel's multiplications and additions.
    channels, bins, hop = 1, frontend.bins, frontend.hop_seconds
    for number, convolution in enumerate(config.convolutions):
        before, after = before + convolution.before * hop, after + convolution.after * hop
        taps = channels * (convolution.kernel[0] or bins) * convolution.kernel[1]
        inputs = channels * bins
        channels, bins = convolution.channels, convolution.bins(bins)
        rate, hop = rate / convolution.stride[1], hop * convolution.stride[1]
        name, shape = f"convolutions.{number}", f"{channels} x {bins}"
        operations = rate * 2 * taps * channels * bins
        if convolution.bottleneck:  # two factors, whose kernels together are one frame longer
            operations = rate * (convolution.kernel[1] + 1) * convolution.bottleneck * (inputs + channels)
        layers.append(LayerSummary(name, shape, parameters[name], operations, _context(before, after)))
    size = channels * bins
    # From the recurrent layers on all frames before count, and what a backward direction or the lookahead waits for.
    after += max(0, config.chunk - 1) * hop
    context = "all" if config.needs_end else f"all before, {after:.3f} after"
    for number in range(config.recurrent_layers):
        products = len(config.spec.gates) * config.hidden * (size + config.hidden) * (1 + config.bidirectional)
        name, size = f"recurrent.{number}", config.hidden
        layers.append(LayerSummary(name, f"{size}", parameters[name], rate * 2 * products, context))
    if config.lookahead:
        after += config.lookahead * hop
        context = "all" if config.needs_end else f"all before, {after:.3f} after"
        operations = rate * 2 * size * (config.lookahead + 1)
        layers.append(LayerSummary("lookahead", f"{size}", parameters["lookahead"], operations, context))
    if config.fully_connected:
        operations = rate * 2 * size * config.fully_connected
        size = config.fully_connected
        layers.append(LayerSummary("fully_connected", f"{size}", parameters["fully_connected"], operations, context))
    layers.append(LayerSummary("output", f"{outputs}", parameters["output"], rate * 2 * size * outputs, context))
    if config.random_walk:
        operations = rate * 2 * outputs * (2 * config.random_walk + 1)
        layers.append(LayerSummary("random_walk", f"{outputs}", parameters["random_walk"], operations, context))
    return layers


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


def _context(before: float, after: float) -> str:
    return f"{before:.3f} before, {after:.3f} after"
