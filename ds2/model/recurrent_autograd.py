"""The recurrences of simple RNN and GRU for training on a CPU, forward and backward over time by hand.

torch's own kernels add the gradient of the recurrent weight to the whole matrix at every time step, which takes most
of the time of wide layers. Here it is one product over all time steps, after the loop. The loops are in Python; each
call in them (matrix products, the kernels of gru_kernels.py) is large enough for that not to matter.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from ds2.model.config import CLIP
from ds2.model.gru_kernels import GRUGradients, GRUHistory, gru_backward, gru_forward
from ds2.utils.jit import plain


class RNN(torch.autograd.Function):
    """h_t = clipped_relu(x_t + U h_{t-1})"""

    @staticmethod
    def forward(terms: Tensor, start: Tensor, weight: Tensor) -> Tensor:
        """(T, B, H) input terms x, (B, H) h_0, (H, H) U -> (T + 1, B, H) h_0 to h_T."""
        states = terms.new_empty(len(terms) + 1, *start.shape)
        states[0] = before = start
        transposed = weight.t()
        for term, after in over_frames(terms, states[1:]):
            before = torch.addmm(term, before, transposed, out=after).clamp_(0.0, CLIP)
        return states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Keeps what the backward pass needs."""
        ctx.save_for_backward(inputs[2], output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """(T + 1, B, H) gradients of the states -> gradients of the inputs, in their order."""
        weight, states = ctx.saved_tensors
        slopes = ((states[1:] > 0) & (states[1:] < CLIP)).to(grad.dtype)
        grad_terms = torch.empty_like(slopes)
        flowing = torch.zeros_like(grad[0])
        for own, slope, grad_term in reversed(list(over_frames(grad[1:], slopes, grad_terms))):
            torch.mul(flowing.add_(own), slope, out=grad_term)
            flowing = grad_term @ weight
        return grad_terms, flowing + grad[0], recurrent_weight_gradient(grad_terms, states)


class GRU(torch.autograd.Function):
    """r, z = sigmoid(x_t + U h_{t-1});  n = tanh(x_t + r * (U_n h_{t-1} + c_n));  h_t = (1 - z) n + z h_{t-1}"""

    @staticmethod
    def forward(terms: Tensor, start: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(T, B, 3H) input terms of r, z, n, (B, H) h_0, (3H, H) U, (H,) c_n -> (T + 1, B, H) h_0 to h_T; and for the
        backward pass (T, B, 3H) r, z, n, and (T, B, H) U_n h_{t-1} + c_n.

        Products with U are taken in the precision of the terms, in which gates and gradients of terms are kept too;
        the states are in that of U.
        """
        terms, states = terms.contiguous(), start.new_empty(len(terms) + 1, *start.shape)
        states[0] = start
        gates, products = torch.empty_like(terms), terms.new_empty(len(terms), *start.shape)
        history, flat_terms, flat_bias = _state_history(gates, products, states), flat(terms), flat(bias)
        one, product = history[-1].dtype.type(1), Product(weight.to(terms.dtype), len(start))
        for t, before in enumerate(states[:-1].unbind()):
            gru_forward(t, *start.shape, one, flat_terms, flat(product(before)), flat_bias, history)
        return states, gates, products

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        """Keeps what the backward pass needs."""
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(inputs[2], *output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        """(T + 1, B, H) gradients of the states -> gradients of the inputs, in their order."""
        weight, states, gates, products = ctx.saved_tensors
        precision, hidden = gates.dtype, grad.shape[2]
        flowing = torch.zeros_like(grad[0])
        grad_terms, grad_recurrent = torch.empty_like(gates), torch.empty_like(gates)
        above, history = flat(grad[1:]), _state_history(gates, products, states)
        gradients = plain(GRUGradients(*map(flat, (flowing, grad_terms, grad_recurrent))))
        one, product = above.dtype.type(1), Product(weight.to(precision).t().contiguous(), len(flowing))
        for t, now in reversed(list(enumerate(grad_recurrent.unbind()))):
            gru_backward(t, *grad.shape[1:], one, above, history, gradients)
            flowing += product(now)
        grad_bias = grad_recurrent[..., -hidden:].sum((0, 1), dtype=weight.dtype)
        grad_weight = recurrent_weight_gradient(grad_recurrent, states.to(precision)).to(weight.dtype)
        return grad_terms, flowing + grad[0], grad_weight, grad_bias


def _state_history(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    """GRUHistory of tensors in its order, as the kernels take it."""
    return plain(GRUHistory(*map(flat, tensors)))


class Product:
    """(N, K) weight: (B, K) x -> (B, N) x W^T in the weight's precision, for many x.

    In bfloat16 the weight is packed once for the processor's matrix unit; torch would pack it again for each x.
    """

    def __init__(self, weight: Tensor, rows: int):
        """`rows`: B, for which the weight is packed."""
        self.weight, self.packed = weight, None
        if weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)

    def __call__(self, x: Tensor) -> Tensor:
        """(B, K) -> (B, N)."""
        x = x.to(self.weight.dtype)
        if self.packed is None:
            return x @ self.weight.t()
        return torch.as_tensor(torch.ops.mkldnn._linear_pointwise(x, self.packed, None, "none", [], ""))


def flat(tensor: Tensor) -> np.ndarray:
    """(N,) values of a contiguous tensor as an array; bfloat16, which numpy lacks, as its bits."""
    values = tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor
    return np.asarray(values.view(-1).numpy())


def over_frames(*parts: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Parts (T, ...) -> their (...) rows at the first time step, at the second, ..."""
    return zip(*(part.unbind() for part in parts), strict=True)


def recurrent_weight_gradient(grad: Tensor, states: Tensor) -> Tensor:
    """(T, B, G) gradients of U h_{t-1}, (T + 1, B, H) states -> (G, H) gradient of U."""
    return grad.view(-1, grad.shape[2]).t() @ states[:-1].flatten(0, 1)


def rnn(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, recurrent_weight: Tensor, c: Tensor) -> Tensor:
    """(T, B, D), (H, D) W, (H,) b, (B, H) h_0, (H, H) U, (H,) c -> (T, B, H), in the precision of U.

    The input terms are W x_t + b.
    """
    terms = linear(x, weight, bias + c).to(c.dtype)
    return torch.as_tensor(RNN.apply(terms, start.to(c.dtype), recurrent_weight)[1:])


def gru(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, recurrent_weight: Tensor, c: Tensor) -> Tensor:
    """Like `rnn`, (T, B, D) -> (T, B, H), with r, z and n one below the other: (3H, D), (3H,), (3H, H), (3H,).

    Under autocast to bfloat16 products with U are taken in it too, in less than half the time.
    """
    c_rz, c_n = c.split([2 * start.shape[1], start.shape[1]])
    terms = linear(x, weight, bias + torch.cat([c_rz, torch.zeros_like(c_n)]))
    if terms.dtype != torch.bfloat16:  # under autocast to it
        terms = terms.to(c.dtype)
    with torch.autocast("cpu", enabled=False):  # of other products
        return torch.as_tensor(GRU.apply(terms, start.to(c.dtype), recurrent_weight, c_n)[0][1:])
