"""Cells of recurrent layers, a frame at a time: the input term, the recurrent term, the state -> the next state."""

from collections.abc import Callable

import torch
from torch import Tensor

from ds2.model.activation import clipped_relu
from ds2.model.normalization import EPSILON, STEPS, StepBatchNorm
from ds2.model.recurrent import BNLSTMDirection


def _gru(term: Tensor, recurrent: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    size = h.shape[1]
    r, z = (term[:, : 2 * size] + recurrent[:, : 2 * size]).sigmoid_().chunk(2, dim=1)
    n = torch.addcmul(term[:, 2 * size :], r, recurrent[:, 2 * size :]).tanh_()
    return (torch.lerp(n, h, z),)


def _lstm(term: Tensor, recurrent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    i, f, g, o = (term + recurrent).chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _rnn(term: Tensor, recurrent: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return (clipped_relu(term + recurrent),)


class BNLSTMStep:
    """A BN-LSTM's step by its population statistics: scales and shifts for each of the first STEPS frames."""

    def __init__(self, layer: BNLSTMDirection):
        self.input_scale, input_shift = scale_and_shift(layer.input_norm)
        self.recurrent_scale, recurrent_shift = scale_and_shift(layer.recurrent_norm)
        self.cell_scale, cell_shift = scale_and_shift(layer.cell_norm)
        self.shift, self.cell_shift = input_shift + recurrent_shift + layer.bias, cell_shift + layer.beta

    def __call__(self, term: Tensor, recurrent: Tensor, h: Tensor, c: Tensor, frames: Tensor) -> tuple[Tensor, ...]:
        """`frames`: (B, 1) of each stream before this one."""
        place = frames.squeeze(1).long().clamp(max=STEPS - 1)
        gates = term * self.input_scale[place] + recurrent * self.recurrent_scale[place] + self.shift[place]
        i, f, g, o = gates.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * (c * self.cell_scale[place] + self.cell_shift[place]).tanh(), c, frames + 1.0


def scale_and_shift(norm: StepBatchNorm) -> tuple[Tensor, Tensor]:
    """(STEPS, H) a and b such that a * x + b is x by the population statistics of each time step."""
    steps = torch.arange(STEPS, device=norm.means.device).clamp(max=norm.last)
    scale = norm.gamma * torch.rsqrt(norm.variances[steps] + EPSILON)
    return scale, -scale * norm.means[steps]


CELLS: dict[str, Callable[..., tuple[Tensor, ...]]] = {"gru": _gru, "lstm": _lstm, "rnn": _rnn}
