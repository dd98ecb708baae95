"""The recurrence of a BN-LSTM for training on a CPU, forward and backward over time by hand (bn_lstm_kernels.py).

The statistics of U h_{t-1} are known only when h_{t-1} is, of all utterances, so there is a product for each time step.
The gradient of U is one product over all time steps, after the loop.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ds2.model.bn_lstm_kernels import (
    BNLSTMGradients,
    BNLSTMHistory,
    ColumnMoments,
    Minibatch,
    Scales,
    bn_lstm_backward,
    bn_lstm_forward,
)
from ds2.model.config import EPSILON
from ds2.model.recurrent_autograd import Product, flat, recurrent_weight_gradient
from ds2.utils.jit import plain


class StepMoments(NamedTuple):
    """Means and biased variances of each time step, (T, 4H) or (T, H), of the minibatch."""

    means: Tensor
    variances: Tensor


class BNLSTM(torch.autograd.Function):
    """See recurrent.BNLSTMDirection."""

    @staticmethod
    def forward(
        terms: Tensor, lengths: Tensor, start: tuple[Tensor, Tensor], weight: Tensor, by_step: bool, *scales: Tensor
    ) -> tuple[Tensor, ...]:
        """(T, B, 4H) W x, (B,) frames, (B, H) h_0, c_0, (4H, H) U, Minibatch's by_step, and the five of Scales.

        Returns:
            (T + 1, B, H) h_0 to h_T; (3, T, 4H), (3, T, 4H), (3, T, H) ColumnMoments of W x, U h and c; and what else
            BNLSTMHistory holds, in its order.
        """
        # All that the kernels fill in is allocated before the loop, with a row for each time step.
        frames, batch, four = terms.shape
        terms, hidden = terms.contiguous(), four // 4
        h, c = (part.new_empty(frames + 1, batch, hidden) for part in start)
        h[0], c[0] = start
        recurrents, gates = torch.empty_like(terms), torch.empty_like(terms)
        inputs = torch.empty_like(terms) if by_step else terms.clone()
        cells, shown = (torch.empty_like(h[1:]) for _ in range(2))
        moments = [terms.new_empty(3, frames, width) for width in (four, four, hidden)]
        saved = inputs, recurrents, cells, gates, shown, c
        history, minibatch = _history(h, moments, saved), _minibatch(lengths, h, by_step)
        product, flat_terms, flat_scales = Product(weight, batch), flat(terms), tuple(map(flat, scales))
        for t, before in enumerate(h[:-1].unbind()):
            bn_lstm_forward(t, minibatch, flat_terms, flat(product(before)), flat_scales, history)
        return h, *moments, *saved

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keeps what the backward pass needs."""
        ctx.mark_non_differentiable(*output[1:])
        ctx.by_step = inputs[4]
        ctx.save_for_backward(inputs[1], inputs[3], *inputs[5:], *output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        """(T + 1, B, H) gradients of the states -> gradients of the inputs that have one."""
        lengths, weight, *others = ctx.saved_tensors
        scales, (h, *moments), saved = others[:5], others[5:9], others[9:]
        # The gradients of all time steps are kept: their products with inputs and states are taken at once afterwards.
        frames, batch, hidden = grad.shape[0] - 1, *grad.shape[1:]
        flowing_h, flowing_c = torch.zeros_like(grad[0]), torch.zeros_like(grad[0])
        grad_terms, grad_recurrent = (grad.new_empty(frames, batch, 4 * hidden) for _ in range(2))
        grad_scales = [torch.zeros_like(scale) for scale in scales]
        h_, c_, terms, recurrent = map(flat, (flowing_h, flowing_c, grad_terms, grad_recurrent))
        sums, products = (flat(grad.new_empty(4 * hidden)) for _ in range(2))
        flat_grads = Scales(*map(flat, grad_scales))
        gradients = plain(BNLSTMGradients(h_, c_, terms, recurrent, flat_grads, sums, products))
        history, minibatch = _history(h, moments, saved), _minibatch(lengths, h, ctx.by_step)
        product, flat_scales = Product(weight.t().contiguous(), batch), tuple(map(flat, scales))
        above = flat(grad[1:].contiguous())
        # Within a step what flows through U waits for the kernel; all else stays in it.
        for t in reversed(range(frames)):
            bn_lstm_backward(t, minibatch, above, flat_scales, history, gradients)
            flowing_h += product(grad_recurrent[t])
        grad_weight = recurrent_weight_gradient(grad_recurrent, h)
        return grad_terms, None, None, grad_weight, None, *grad_scales


def _history(h: Tensor, moments: Sequence[Tensor], saved: Sequence[Tensor]) -> tuple[Any, ...]:
    """BNLSTMHistory, as the kernels take it."""
    inputs, recurrents, cells, gates, shown, c = map(flat, saved)
    of_inputs, of_recurrents, of_cells = (ColumnMoments(*map(flat, each)) for each in moments)
    steps = inputs, recurrents, cells, gates, shown, c, flat(h)
    return plain(BNLSTMHistory(*steps, of_inputs, of_recurrents, of_cells))


def _minibatch(lengths: Tensor, h: Tensor, by_step: bool) -> tuple[Any, ...]:
    """Minibatch, as the kernels take it."""
    number = flat(h).dtype.type
    return plain(Minibatch(lengths.numpy(), h.shape[2], by_step, number(1), number(EPSILON)))


def bn_lstm(
    terms: Tensor, lengths: Tensor, start: tuple[Tensor, Tensor], weight: Tensor, by_step: bool, *scales: Tensor
) -> tuple[Tensor, tuple[StepMoments, ...]]:
    """Like `BNLSTM.forward` -> (T, B, H) h_1 to h_T and the moments of W x (if by step), U h and c."""
    with torch.autocast("cpu", enabled=False):
        h, *moments = BNLSTM.apply(terms, lengths, start, weight, by_step, *scales)[:4]
    return h[1:], tuple(StepMoments(each[0], each[1]) for each in moments[0 if by_step else 1 :])
