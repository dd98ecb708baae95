"""Factored time-delay layers (TDNN-F, Povey et al. 2018, "Semi-orthogonal low-rank matrix factorization ...").

A convolution over k frames of C channels is the product of two narrower ones, through a bottleneck of R channels:

    x (B, C, 1, T)  ->  k1 frames, C -> R  ->  k2 frames, R -> C'  ->  BN, clipped ReLU, dropout  ->  + bypass * x

with k1 + k2 - 1 = k. A stack of them hears a fixed span of sound around each frame, learns from little speech, and
streams as it is.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ds2.model.config import CLIP, EPSILON, ConvolutionConfig
from ds2.model.frontend import valid_mask
from ds2.model.initial_weights import draw_normal
from ds2.model.normalization import ChannelBatchNorm, Total
from ds2.model.recurrent_autograd import flat
from ds2.model.time_delay_kernels import activate, add_gradient_sums, add_moments, gradients


class TimeDelay(nn.Module):
    """One layer, with the interface of a `Convolution` over all bins: (B, C, 1, T) -> (B, C', 1, T)."""

    def __init__(self, inputs: int, config: ConvolutionConfig, dropout: float = 0.0):
        super().__init__()
        self.config = config
        self.first = (config.kernel[1] + 1) // 2  # k1
        self.second = config.kernel[1] + 1 - self.first  # k2
        self.narrow = nn.Parameter(torch.empty(config.bottleneck, self.first * inputs))  # by frame, then channel
        self.wide = nn.Parameter(torch.empty(config.channels, self.second * config.bottleneck))
        for weight in (self.narrow, self.wide):
            draw_normal(weight, 1 / math.sqrt(weight.shape[1]))
        self.norm = ChannelBatchNorm(config.channels)
        self.dropout = dropout
        self.bypass = config.bypass if inputs == config.channels else 0.0

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, C, 1, T) with zeros beyond the (B,) lengths -> the same at the layer's output."""
        return self._activated(self._product(x, self.config.before, self.config.after), x, lengths), lengths

    def with_context(self, x: Tensor, valid: Tensor) -> Tensor:
        """(B, C, 1, T + k - 1) frames with their context, (B, T) which count -> (B, C', 1, T), deployed."""
        before = self.config.before
        return self._by_operators(self._product(x, 0, 0), x[..., before : before + valid.shape[1]], valid)

    def _product(self, x: Tensor, before: int, after: int) -> Tensor:
        """(B, C, 1, T) with so many frames of zeros before and after it -> (B, C', 1, T + before + after - k + 1)."""
        rows = x.squeeze(2).transpose(1, 2)
        # All taps of the first factor are one product, of which each frame then takes its own rows.
        taps = self.narrow.view(len(self.narrow), self.first, -1).transpose(0, 1).flatten(0, 1)
        products = nn.functional.pad(nn.functional.linear(rows, taps), (0, 0, before, after)).chunk(self.first, dim=2)
        count = products[0].shape[1] - self.first + 1
        narrow = torch.stack([product[:, tap : tap + count] for tap, product in enumerate(products)]).sum(0)
        count = narrow.shape[1] - self.second + 1
        wide = torch.cat([narrow[:, tap : tap + count] for tap in range(self.second)], dim=2)
        return nn.functional.linear(wide, self.wide).transpose(1, 2).unsqueeze(2)

    def _activated(self, x: Tensor, skip: Tensor, lengths: Tensor) -> Tensor:
        """BN, clipped ReLU, dropout of whole channels of an utterance, bypass; zeros beyond the lengths."""
        if self.training and x.device.type == "cpu":
            return self._by_kernels(x, skip, lengths)
        return self._by_operators(x, skip, valid_mask(lengths, x.shape[3]))

    def _by_operators(self, x: Tensor, skip: Tensor, valid: Tensor) -> Tensor:
        mask = valid[:, None, None, :]
        x = self.norm(x * mask if self.training else x, valid)
        if self.training and self.dropout:
            x = x * self._kept(x)[:, :, None, None]
        return x + self.bypass * skip * mask if self.bypass else x

    def _kept(self, x: Tensor) -> Tensor:
        """(B, C) 0 for dropped channels of an utterance, else 1 / (1 - dropout)."""
        keep = 1.0 - self.dropout
        return torch.empty(x.shape[:2], device=x.device, dtype=self.norm.gamma.dtype).bernoulli_(keep).div_(keep)

    def _by_kernels(self, x: Tensor, skip: Tensor, lengths: Tensor) -> Tensor:
        kept = self._kept(x) if self.dropout else self.norm.gamma.new_ones(x.shape[:2])
        norm = self.norm
        result, mean, variance, count, _ = _Activation.apply(
            x, skip.to(x.dtype), kept, lengths, norm.gamma, norm.beta, self.bypass, norm.total
        )
        norm.update(mean, variance, count)
        return result


class _Activation(torch.autograd.Function):
    """BN, clipped ReLU, dropout and bypass by the kernels; gradients by hand."""

    @staticmethod
    def forward(
        x: Tensor, skip: Tensor, kept: Tensor, lengths: Tensor, gamma: Tensor, beta: Tensor, bypass: float,
        total: Total | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """(B, C, 1, T) products and skipped input -> result; (C,) mean, variance, () count of the minibatch; constants.

        The constants are (B, 3, C): scale, shift and `kept`.
        """
        rows, own, frames = _frame_rows(x), lengths.to(torch.int64).numpy(), x.shape[3]
        sums = gamma.new_zeros(len(x), 2, len(gamma))
        add_moments(rows, own, frames, flat(sums))
        # In double precision, for the squares cancel.
        moments = torch.cat([sums.double().sum(0).flatten(), lengths.sum().double().view(1)])
        if total is not None:
            moments = total(moments)
        first, second = moments[:-1].div(moments[-1].clamp(min=1)).chunk(2)
        mean, variance = first.to(gamma.dtype), (second - first.square()).clamp(min=0).to(gamma.dtype)
        # Normalisation and dropout are one scale, one shift and one factor for each channel: one pass over memory.
        scale = gamma * torch.rsqrt(variance + EPSILON)
        constants = torch.stack([scale.expand_as(kept), (beta - scale * mean).expand_as(kept), kept], dim=1)
        result = torch.empty_like(x, memory_format=torch.channels_last)
        number = flat(sums).dtype.type
        activate(
            rows, _frame_rows(skip), flat(constants), own, frames, number(bypass), number(CLIP), _frame_rows(result)
        )
        return result, mean, variance, moments[-1].to(gamma.dtype), constants

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, _, _, lengths, gamma, _, ctx.bypass, ctx.total = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, lengths, gamma, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        x, lengths, gamma, mean, variance, count, constants = ctx.saved_tensors
        grad = grad.to(x.dtype)
        own, frames, number = lengths.to(torch.int64).numpy(), x.shape[3], flat(gamma).dtype.type
        arrays, sums = (_frame_rows(x), _frame_rows(grad), flat(constants)), gamma.new_zeros(len(x), 2, len(gamma))
        # A first pass sums the gradient of each channel, and its product with x: they are the gradients of beta and
        # gamma.
        add_gradient_sums(*arrays, own, frames, number(CLIP), flat(sums))
        inverse = torch.rsqrt(variance + EPSILON)
        grad_beta, products = sums.double().sum(0)
        grad_gamma = inverse * (products - mean * grad_beta)
        sum_gamma, sum_beta = (
            (grad_gamma, grad_beta) if ctx.total is None else ctx.total(torch.stack([grad_gamma, grad_beta]))
        )
        # What flows to x through mean and variance is a line in x, with one slope and offset for each channel: a second
        # pass.
        scale, count = gamma * inverse, count.clamp(min=1)
        slope = -scale * inverse * sum_gamma / count
        slopes = torch.stack([slope, -scale * sum_beta / count - slope * mean]).to(gamma.dtype)
        grad_x = torch.empty_like(x, memory_format=torch.channels_last)
        gradients(*arrays, flat(slopes), own, frames, number(CLIP), _frame_rows(grad_x))
        grad_skip = ctx.bypass * grad if ctx.bypass else None
        return grad_x, grad_skip, None, None, grad_gamma.to(gamma.dtype), grad_beta.to(gamma.dtype), None, None


def _frame_rows(x: Tensor) -> np.ndarray:
    """(B, C, 1, T) -> the values of its (B, T, C) rows, one after the other."""
    return flat(x.detach().permute(0, 2, 3, 1).contiguous())
