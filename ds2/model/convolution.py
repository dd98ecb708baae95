"""Convolutions over frequency and time, or over time alone, then BN and clipped ReLU (Deep Speech 2, section 3.4)."""

import torch
from torch import Tensor, nn

from ds2.model.activation import clipped_relu
from ds2.model.config import ConvolutionConfig
from ds2.model.frontend import valid_mask
from ds2.model.normalization import ChannelBatchNorm


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

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, C, F, T) with zeros beyond the (B,) lengths -> the same at the layer's output."""
        if self.config.lookahead is not None:
            x = nn.functional.pad(x, (self.config.before, self.config.after))
        x, lengths = self.kernel(x), -(-lengths // self.config.stride[1])
        valid = valid_mask(lengths, x.shape[3])
        mask = valid[:, None, None, :]
        if self.norm is None:
            return torch.where(mask, clipped_relu(x), 0.0), lengths
        return self.norm(x.mul_(mask) if self.training else x, valid), lengths
