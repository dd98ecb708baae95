"""A deployed BN-LSTM, a frame at a time: its batch normalisation is a scale and a shift for each time step."""

import torch
from torch import Tensor

from ds2.model.config import EPSILON
from ds2.model.normalization import StepBatchNorm
from ds2.model.recurrent import BNLSTMDirection


class BNLSTMStep:
    """A BN-LSTM's step by its population statistics: scales and shifts for each of the first S frames."""

    def __init__(self, layer: BNLSTMDirection):
        self.input_scale, input_shift = scale_and_shift(layer.input_norm)
        self.recurrent_scale, recurrent_shift = scale_and_shift(layer.recurrent_norm)
        self.cell_scale, cell_shift = scale_and_shift(layer.cell_norm)
        self.shift, self.cell_shift = input_shift + recurrent_shift + layer.bias, cell_shift + layer.beta

    def __call__(self, term: Tensor, recurrent: Tensor, h: Tensor, c: Tensor, frames: Tensor) -> tuple[Tensor, ...]:
        """`frames`: (B, 1) of each stream before this one."""
        place = frames.squeeze(1).long().clamp(max=len(self.shift) - 1)
        gates = term * self.input_scale[place] + recurrent * self.recurrent_scale[place] + self.shift[place]
        i, f, g, o = gates.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * (c * self.cell_scale[place] + self.cell_shift[place]).tanh(), c, frames + 1.0


def scale_and_shift(norm: StepBatchNorm) -> tuple[Tensor, Tensor]:
    """(S, H) a and b such that a * x + b is x by the population statistics of each time step."""
    steps = torch.arange(len(norm.means), device=norm.means.device).clamp(max=norm.last)
    scale = norm.gamma * torch.rsqrt(norm.variances[steps] + EPSILON)
    return scale, -scale * norm.means[steps]
