"""2-D convolutions over frequency and time, each followed by BN and a clipped ReLU (Deep Speech 2, section 3.4)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ds2.model.frontend import valid_mask
from ds2.model.normalization import ChannelBatchNorm

CLIP = 20.0  # clipped ReLU: min(max(x, 0), 20)


def clipped_relu(x: Tensor) -> Tensor:
    return nn.functional.hardtanh(x, 0.0, CLIP)


@dataclass(frozen=True)
class ConvolutionConfig:
    """One layer; pairs are (frequency, time), in bins and frames."""

    channels: int = 32
    kernel: tuple[int, int] = (41, 11)  # odd, so that "same" padding is symmetric
    stride: tuple[int, int] = (2, 2)

    def __post_init__(self) -> None:
        if not all(size % 2 for size in self.kernel):
            raise ValueError(f"kernel {self.kernel} must be odd in frequency and time")


class Convolution(nn.Module):
    """One masked layer: (B, C, F, T) -> (B, C', ceil(F / stride), ceil(T / stride)).

    Frames behind an utterance are zero on the way in and on the way out, exactly as the zeros of "same" padding, so
    that an utterance gives the same result alone and in a batch.
    """

    def __init__(self, inputs: int, config: ConvolutionConfig, batch_norm: bool):
        super().__init__()
        self.stride = config.stride
        padding = (config.kernel[0] // 2, config.kernel[1] // 2)
        self.kernel = nn.Conv2d(inputs, config.channels, config.kernel, config.stride, padding, bias=not batch_norm)
        self.norm = ChannelBatchNorm(config.channels) if batch_norm else None

    def frames(self, lengths: Tensor) -> Tensor:
        """(B,) frames in -> (B,) frames out: ceil(frames / time stride)."""
        return (lengths + self.stride[1] - 1) // self.stride[1]

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, C, F, T) with zeros behind the (B,) lengths -> the same at the layer's output."""
        x, lengths = self.kernel(x), self.frames(lengths)
        valid = valid_mask(lengths, x.shape[3])
        if self.norm is not None:
            x = self.norm(x, valid)
        return torch.where(valid[:, None, None, :], clipped_relu(x), 0.0), lengths
