"""Convolutions over frequency and time, or over time alone, then BN and clipped ReLU (Deep Speech 2, section 3.4)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ds2.model.activation import clipped_relu
from ds2.model.frontend import valid_mask
from ds2.model.normalization import ChannelBatchNorm


@dataclass(frozen=True)
class ConvolutionConfig:
    """One layer; pairs are (frequency, time), in bins and frames.

    The paper's: 2-D (41, 11) / (2, 2) / 32, then (21, 11) / (2, 1) / 32, then the same with 96 channels; 1-D (0, 11) /
    (1, 2) / 1280.
    """

    channels: int = 32
    kernel: tuple[int, int] = (41, 11)  # odd, so that "same" padding is symmetric; frequency 0: all bins at once (1-D)
    stride: tuple[int, int] = (2, 2)
    lookahead: int | None = None  # frames after the present one that the kernel sees; None: as many as before it

    def __post_init__(self) -> None:
        if not all(size % 2 or (size == 0 and axis == 0) for axis, size in enumerate(self.kernel)):
            raise ValueError(f"kernel {self.kernel} must be odd in frequency (or 0: all bins) and time")
        if self.channels < 1 or min(self.stride) < 1:
            raise ValueError(f"channels {self.channels} and stride {self.stride} must be at least 1")
        if self.kernel[1] < self.stride[1]:  # frames between two places of the kernel would be lost
            raise ValueError(f"kernel {self.kernel} must be as long in time as stride {self.stride} at least")
        if self.lookahead is not None and not 0 <= self.lookahead < self.kernel[1]:
            raise ValueError(f"lookahead {self.lookahead} must be 0..{self.kernel[1] - 1}, within the kernel")

    @property
    def after(self) -> int:
        """Frames of right context."""
        return self.kernel[1] // 2 if self.lookahead is None else self.lookahead

    @property
    def before(self) -> int:
        """Frames of left context."""
        return self.kernel[1] - 1 - self.after

    def bins(self, bins: int) -> int:
        """Frequency bins in -> out."""
        return math.ceil(bins / self.stride[0]) if self.kernel[0] else 1


class Convolution(nn.Module):
    """One masked layer: (B, C, F, T) -> (B, C', ceil(F / stride), ceil(T / stride)).

    Frames beyond an utterance are zero in the input and in the output, exactly as the zeros of "same" padding, so that
    an utterance gives the same result alone and in a batch.
    """

    def __init__(self, inputs: int, bins: int, config: ConvolutionConfig, batch_norm: bool):
        super().__init__()
        self.config = config
        height = config.kernel[0] or bins
        padding = config.kernel[0] // 2, 0 if config.lookahead is not None else config.after
        kernel = (height, config.kernel[1])
        self.kernel = nn.Conv2d(inputs, config.channels, kernel, config.stride, padding, bias=not batch_norm)
        self.norm = ChannelBatchNorm(config.channels) if batch_norm else None

    def frames(self, lengths: Tensor) -> Tensor:
        """(B,) frames in -> (B,) frames out: ceil(frames / time stride)."""
        return (lengths + self.config.stride[1] - 1) // self.config.stride[1]

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, C, F, T) with zeros beyond the (B,) lengths -> the same at the layer's output."""
        if self.config.lookahead is not None:
            x = nn.functional.pad(x, (self.config.before, self.config.after))
        return self.activate(self.kernel(x), self.frames(lengths))

    def step(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, C, F, T) frames with their context in time; (B,) how many output frames each stream gets."""
        padding = (self.config.kernel[0] // 2, 0)
        x = nn.functional.conv2d(x, self.kernel.weight, self.kernel.bias, self.kernel.stride, padding)
        return self.activate(x[..., : max(1, int(lengths.max()))], lengths)

    def activate(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """BN, clipped ReLU and zeros beyond the lengths."""
        valid = valid_mask(lengths, x.shape[3])
        mask = valid[:, None, None, :]
        if self.norm is None:
            return torch.where(mask, clipped_relu(x), 0.0), lengths
        return self.norm(x.mul_(mask) if self.training else x, valid), lengths
