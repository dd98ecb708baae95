"""What runs each recurrent cell in torch: torch's half of the table of cells (cells.py)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ds2.model.activation import clipped_relu
from ds2.model.cells import Cell
from ds2.model.recurrent_autograd import gru, rnn


class CellKernels(NamedTuple):
    """The functions that compute a cell whose batch normalisation is folded into its weights."""

    fused: Callable[..., Any]  # torch's, over all frames
    step: Callable[..., tuple[Tensor, ...]]  # of a frame: input term, recurrent term, state -> the next state
    by_hand: Callable[..., Tensor] | None = None  # trains on a CPU, over all frames; None: torch's does
    unclipped: bool = False  # torch's lacks our clip: `by_hand` runs where a state exceeds it


def _rnn_step(term: Tensor, recurrent: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return (clipped_relu(term + recurrent),)


def _gru_step(term: Tensor, recurrent: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    size = h.shape[1]
    r, z = (term[:, : 2 * size] + recurrent[:, : 2 * size]).sigmoid_().chunk(2, dim=1)
    n = torch.addcmul(term[:, 2 * size :], r, recurrent[:, 2 * size :]).tanh_()
    return (torch.lerp(n, h, z),)


def _lstm_step(term: Tensor, recurrent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    i, f, g, o = (term + recurrent).chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


KERNELS: dict[Cell, CellKernels] = {  # a BN-LSTM has modules: recurrent.BNLSTMDirection, bn_lstm_step.BNLSTMStep
    "rnn": CellKernels(torch.rnn_relu, _rnn_step, rnn, unclipped=True),
    "gru": CellKernels(torch.gru, _gru_step, gru),
    "lstm": CellKernels(torch.lstm, _lstm_step),
}
