"""An LSTM with a projection (Sak et al. 2014) for training on a CPU, forward and backward over time by hand.

torch runs each of its operators once for each step and gate, and its products with a projection in float32. Here the
products are in bfloat16 by the processor's matrix unit, their weights packed once for a minibatch, and a step's
arithmetic between them is one kernel. Flat arrays: terms and gates (.., B, 4H) of i, f, g, o as torch has them, others
(.., B, H); cells are float32, all others bfloat16 as its bits in uint16.

    i, f, o = sigmoid(x + U h),  g = tanh(x + U h),  c' = f c + i g,  h' = P (o tanh(c'))
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ds2.model.recurrent_autograd import Product, flat
from ds2.utils.activations import sigmoid, tanh
from ds2.utils.bfloat16 import real, store
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

# Without a cache, which would hold this file's name as a module: tests load it by another.
kernel = njit(nogil=True, error_model="numpy", fastmath=REORDER, cache=False)


@kernel
def lstm_forward(t, batch, hidden, one, terms, recurrent, gates, cells, outputs):  # type: ignore[no-untyped-def]
    """Fills in gates and outputs (T, B, ..) at t, and the cells (T + 1, B, H) at t + 1; `recurrent`: (B, 4H) U h."""
    t, batch, hidden = np.uint64(t), np.uint64(batch), np.uint64(hidden)  # a signed index is tested for its sign
    for b in range(batch):
        here = (t * batch + b) * hidden
        i, own = here + here + here + here, b * (hidden + hidden + hidden + hidden)
        f, g, after = i + hidden, i + hidden + hidden, here + batch * hidden
        o, own_g = g + hidden, own + hidden + hidden
        for j in range(hidden + hidden):
            store(gates, i + j, sigmoid(real(terms[i + j]) + real(recurrent[own + j]), one))
        for j in range(hidden):
            store(gates, g + j, tanh(real(terms[g + j]) + real(recurrent[own_g + j]), one))
        for j in range(hidden):
            store(gates, o + j, sigmoid(real(terms[o + j]) + real(recurrent[own_g + hidden + j]), one))
        for j in range(hidden):
            cells[after + j] = real(gates[f + j]) * cells[here + j] + real(gates[i + j]) * real(gates[g + j])
        for j in range(hidden):
            store(outputs, here + j, real(gates[o + j]) * tanh(cells[after + j], one))


@kernel
def lstm_backward(t, batch, hidden, one, grad, flowing, gates, cells, grad_terms):  # type: ignore[no-untyped-def]
    """Fills in the gradients of the terms (T, B, 4H) at t, from (B, H) those of the outputs at t; `flowing` (B, H), the
    gradient of the cells after t by all later steps, becomes that of the cells before."""
    t, batch, hidden = np.uint64(t), np.uint64(batch), np.uint64(hidden)
    for b in range(batch):
        here, own = (t * batch + b) * hidden, b * hidden
        i, after = here + here + here + here, here + batch * hidden
        f, g = i + hidden, i + hidden + hidden
        o = g + hidden
        for j in range(hidden):
            shown, gate = tanh(cells[after + j], one), real(gates[o + j])
            flowing[own + j] += real(grad[own + j]) * gate * (one - shown * shown)
            store(grad_terms, o + j, real(grad[own + j]) * shown * gate * (one - gate))
        for j in range(hidden):
            gate, new = real(gates[i + j]), real(gates[g + j])
            store(grad_terms, i + j, flowing[own + j] * new * gate * (one - gate))
            store(grad_terms, g + j, flowing[own + j] * gate * (one - new * new))
        for j in range(hidden):
            gate = real(gates[f + j])
            store(grad_terms, f + j, flowing[own + j] * cells[here + j] * gate * (one - gate))
            flowing[own + j] *= gate


class ProjectedLSTM(torch.autograd.Function):
    """(T, B, 4H) bfloat16 terms, (4H, P) U, (P, H) projection -> (T, B, P) bfloat16 states; they begin with zeros."""

    @staticmethod
    def forward(ctx: Any, terms: Tensor, recurrent: Tensor, projection: Tensor) -> Tensor:
        terms, (steps, batch), size = terms.contiguous(), terms.shape[:2], projection.shape[1]
        states = terms.new_zeros(steps + 1, batch, len(projection))
        gates, outputs = torch.empty_like(terms), terms.new_empty(steps, batch, size)
        cells = torch.zeros(steps + 1, batch, size)
        own = (np.float32(1), flat(terms))
        history = flat(gates), flat(cells), flat(outputs)
        product, projected = (Product(weight.to(terms.dtype), batch) for weight in (recurrent, projection))
        for t in range(steps):
            lstm_forward(t, batch, size, *own, flat(product(states[t])), *history)
            states[t + 1] = projected(outputs[t])
        ctx.save_for_backward(recurrent, projection, states, gates, cells, outputs)
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        recurrent, projection, states, gates, cells, outputs = ctx.saved_tensors
        steps, batch, size = outputs.shape
        flowing, of_cells = torch.zeros_like(states[0]), cells.new_zeros(batch, size)
        grad_terms, of_states = torch.empty_like(gates), grad.contiguous().clone()
        history = flat(of_cells), flat(gates), flat(cells), flat(grad_terms)
        transposed = (Product(weight.to(gates.dtype).t().contiguous(), batch) for weight in (recurrent, projection))
        back, to_outputs = transposed
        for t in range(steps - 1, -1, -1):
            of_states[t] += flowing
            lstm_backward(t, batch, size, np.float32(1), flat(to_outputs(of_states[t]).contiguous()), *history)
            flowing = back(grad_terms[t])
        of_recurrent = grad_terms.flatten(0, 1).t() @ states[:-1].flatten(0, 1)
        of_projection = of_states.flatten(0, 1).t() @ outputs.flatten(0, 1)
        return grad_terms, of_recurrent.to(recurrent.dtype), of_projection.to(projection.dtype)
