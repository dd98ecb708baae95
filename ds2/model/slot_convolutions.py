"""The convolutions of a model of live streams: batch normalisation is folded in, and slots keep what a kernel needs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from ds2.model.acoustic import AcousticModel
from ds2.model.activation import clipped_relu
from ds2.model.convolution import Convolution
from ds2.model.gate import ChannelGate
from ds2.model.normalization import ChannelBatchNorm
from ds2.model.time_delay import TimeDelay


@dataclass
class SlotConvolution:
    """A convolution or a time-delay layer, and what it keeps of each slot."""

    run: Callable[[Tensor, Tensor], Tensor]  # (B, C, F, T) with the past before it, (B, T') valid -> (B, C', F', T')
    kernel: int  # frames
    stride: int  # frames
    total_stride: int  # front-end frames per frame of its output
    delay: int  # of its output, in its own frames
    kept: Tensor  # (slots, C, F, T)
    gate: ChannelGate | None  # of its output
    sums: Tensor  # (slots, C') of the output before the gate, in float64

    def frames(self, inputs: int) -> int:
        """Frames out, of so many frames in with the past before them."""
        return (inputs - self.kernel) // self.stride + 1


def fold_convolutions(model: AcousticModel, slots: int) -> list[SlotConvolution]:
    """The layers of a model, with room for so many slots."""
    channels, bins, total = 1, model.config.frontend.bins, 1
    folded = []
    for number, (layer, (keeps, delay)) in enumerate(zip(model.convolutions, model.config.waits, strict=True)):
        assert isinstance(layer, Convolution | TimeDelay)
        config = layer.config
        total *= config.stride[1]
        kept = model.output.weight.new_zeros(slots, channels, bins, keeps)
        run = layer.with_context if isinstance(layer, TimeDelay) else _convolution(layer)
        gate = cast(ChannelGate, model.gates[str(number)]) if config.gate else None
        sums = kept.new_zeros(slots, config.channels, dtype=torch.float64)
        folded.append(SlotConvolution(run, config.kernel[1], config.stride[1], total, delay, kept, gate, sums))
        channels, bins = config.channels, config.bins(bins)
    return folded


def _convolution(layer: Convolution) -> Callable[[Tensor, Tensor], Tensor]:
    weight, bias = layer.kernel.weight, layer.kernel.bias
    if isinstance(layer.norm, ChannelBatchNorm):
        scale, bias = layer.norm.scale_and_shift(layer.norm.mean, layer.norm.variance)
        weight = weight * scale[:, None, None, None]
    return partial(_convolve, weight, bias, layer.config.stride, layer.config.kernel[0] // 2)


def _convolve(
    weight: Tensor, bias: Tensor | None, stride: tuple[int, int], padding: int, x: Tensor, valid: Tensor
) -> Tensor:
    x = nn.functional.conv2d(x, weight, bias, stride, (padding, 0))
    return clipped_relu(x).mul_(valid[:, None, None, :])
