"""The recurrence of a BN-LSTM for training on a CPU, forward and backward over time by hand (bn_lstm_kernels.py).

The statistics of U h_{t-1} are known only when h_{t-1} is, of all utterances, so there is a product for each time step.
The gradient of U is one product over all time steps, after the loop.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ds2.model.bn_lstm_kernels import backward_step, forward_step
from ds2.model.config import EPSILON
from ds2.model.recurrent_autograd import Product, flat, over_time


class StepMoments(NamedTuple):
    """Means and biased variances of each time step, (T, 4H) or (T, H), of the minibatch."""

    means: Tensor
    variances: Tensor


class BNLSTM(torch.autograd.Function):
    """See recurrent.BNLSTMDirection."""

    @staticmethod
    def forward(
        terms: Tensor, lengths: Tensor, start: tuple[Tensor, Tensor], weight: Tensor, *scales: Tensor
    ) -> tuple[Tensor, ...]:
        """(T, B, 4H) W x, (B,) frames, (B, H) h_0, c_0, (4H, H) U, gamma_x, gamma_h, b (4H,), gamma_c, beta (H,).

        Returns:
            (T + 1, B, H) h_0 to h_T; then means, variances and 1 / deviations of W x and U h (T, 4H) and of c (T, H),
            and what else the backward pass needs.
        """
        frames, batch, four = terms.shape
        terms, hidden = terms.contiguous(), four // 4
        h, c = (part.new_empty(frames + 1, batch, hidden) for part in start)
        h[0], c[0] = start
        inputs, recurrents, gates = (torch.empty_like(terms) for _ in range(3))
        cells, shown = (torch.empty_like(h[1:]) for _ in range(2))
        stats = [terms.new_empty(3, frames, width) for width in (four, four, hidden)]
        arrays = [flat(tensor) for tensor in (inputs, recurrents, cells, gates, shown, c, h)]
        threes = [tuple(map(flat, stat)) for stat in stats]
        one, product = arrays[0].dtype.type(1), Product(weight, batch)
        counts, flats = lengths.numpy(), tuple(map(flat, scales))
        epsilon, terms_ = arrays[0].dtype.type(EPSILON), flat(terms)
        for t, before in enumerate(h[:-1].unbind()):
            recurrent = flat(product(before))
            forward_step(t, counts, hidden, one, epsilon, terms_, recurrent, flats, *arrays, *threes)
        return h, *stats, inputs, recurrents, cells, gates, shown, c

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(inputs[1], inputs[3], *inputs[4:], *output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        lengths, weight, *others = ctx.saved_tensors
        scales, (h, *stats), saved = others[:5], others[5:9], others[9:]
        frames, batch, hidden = grad.shape[0] - 1, *grad.shape[1:]
        flowing_h, flowing_c = torch.zeros_like(grad[0]), torch.zeros_like(grad[0])
        grad_terms, grad_recurrent = (grad.new_empty(frames, batch, 4 * hidden) for _ in range(2))
        grad_scales = [torch.zeros_like(scale) for scale in scales]
        arrays = [flat(tensor) for tensor in (*saved, *(stat[2] for stat in stats))]
        targets = [flat(tensor) for tensor in (flowing_h, flowing_c, grad_terms, grad_recurrent)]
        one, product = arrays[0].dtype.type(1), Product(weight.t().contiguous(), batch)
        flats = [tuple(map(flat, each)) for each in (scales, grad_scales)]
        scratch = np.empty((2, 4 * hidden), one.dtype)
        above, counts = flat(grad[1:].contiguous()), lengths.numpy()
        for t in reversed(range(frames)):
            backward_step(t, counts, hidden, one, above, flats[0], *arrays, *targets, flats[1], *scratch)
            flowing_h += product(grad_recurrent[t])
        grad_weight = over_time(grad_recurrent, h)
        return grad_terms, None, None, grad_weight, *grad_scales


def bn_lstm(
    terms: Tensor, lengths: Tensor, start: tuple[Tensor, Tensor], weight: Tensor, *scales: Tensor
) -> tuple[Tensor, tuple[StepMoments, ...]]:
    """Like `BNLSTM.forward` -> (T, B, H) h_1 to h_T and the moments of W x, U h and c."""
    with torch.autocast("cpu", enabled=False):
        h, *stats = BNLSTM.apply(terms, lengths, start, weight, *scales)[:4]
    return h[1:], tuple(StepMoments(stat[0], stat[1]) for stat in stats)
