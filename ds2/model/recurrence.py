"""The recurrences of simple RNN and GRU for training on a CPU, forward and backward over time by hand.

torch's own kernels add the gradient of the recurrent weight to the whole matrix at every time step, which for wide
layers takes longer than all else. Here it is one product over all time steps, behind the loop. The loops are Python's;
what they call is large enough for that not to matter.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from ds2.model.normalization import CLIP


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
        ctx.save_for_backward(inputs[2], output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, states = ctx.saved_tensors
        slopes = ((states[1:] > 0) & (states[1:] < CLIP)).to(grad.dtype)
        grad_terms = torch.empty_like(slopes)
        flowing = torch.zeros_like(grad[0])
        for own, slope, grad_term in reversed(list(over_frames(grad[1:], slopes, grad_terms))):
            torch.mul(flowing.add_(own), slope, out=grad_term)
            flowing = grad_term @ weight
        return grad_terms, flowing + grad[0], over_time(grad_terms, states)


class GRU(torch.autograd.Function):
    """r, z = sigmoid(x_t + U h_{t-1});  n = tanh(x_t + r * (U_n h_{t-1} + c_n));  h_t = (1 - z) n + z h_{t-1}"""

    @staticmethod
    def forward(terms: Tensor, start: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(T, B, 3H) input terms of r, z, n, (B, H) h_0, (3H, H) U, (H,) c_n -> (T + 1, B, H) h_0 to h_T; and for the
        backward pass (T, B, 3H) r, z, n, and (T, B, H) U_n h_{t-1} + c_n."""
        hidden = start.shape[1]
        states = terms.new_empty(len(terms) + 1, *start.shape)
        states[0] = start
        gates, products = torch.empty_like(terms), torch.empty_like(states[1:])
        weight_rz, weight_n = weight[: 2 * hidden].t(), weight[2 * hidden :].t()
        before = states[0]
        for term_rz, term_n, gate_rz, r, z, n, product, after in over_frames(
            terms[..., : 2 * hidden],
            terms[..., 2 * hidden :],
            gates[..., : 2 * hidden],
            *gates.split(hidden, 2),
            products,
            states[1:],
        ):
            torch.addmm(term_rz, before, weight_rz, out=gate_rz).sigmoid_()
            torch.addmm(bias, before, weight_n, out=product)
            torch.addcmul(term_n, r, product, out=n).tanh_()
            torch.lerp(n, before, z, out=after)
            before = after
        return states, gates, products

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(inputs[2], *output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        weight, states, gates, products = ctx.saved_tensors
        hidden = weight.shape[1]
        r, z, n = gates.split(hidden, 2)
        slope_n = torch.ops.aten.tanh_backward(1 - z, n)  # of the arguments of n and z by h_t, of r by that of n
        slope_z = torch.ops.aten.sigmoid_backward(states[:-1] - n, z)
        slope_r = torch.ops.aten.sigmoid_backward(products, r)
        grad_terms, grad_products = torch.empty_like(gates), torch.empty_like(products)
        grads_rz = grad_terms[..., : 2 * hidden]
        weight_rz, weight_n = weight[: 2 * hidden], weight[2 * hidden :]
        flowing = torch.zeros_like(grad[0])
        parts = grad[1:], slope_n, slope_z, slope_r, r, z, grads_rz, *grad_terms.split(hidden, 2), grad_products
        for own, by_n, by_z, by_r, reset, update, now_rz, now_r, now_z, now_n, product in reversed(
            list(over_frames(*parts))
        ):
            flowing.add_(own)
            torch.mul(flowing, by_n, out=now_n)
            torch.mul(flowing, by_z, out=now_z)
            torch.mul(now_n, by_r, out=now_r)
            torch.mul(now_n, reset, out=product)
            flowing.mul_(update).addmm_(now_rz, weight_rz).addmm_(product, weight_n)
        grad_weight = torch.cat([over_time(grads_rz, states), over_time(grad_products, states)])
        return grad_terms, flowing + grad[0], grad_weight, grad_products.sum((0, 1))


def over_frames(*parts: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The rows of all parts at the first time step, at the second, ..."""
    return zip(*(part.unbind() for part in parts), strict=True)


def over_time(grad: Tensor, states: Tensor) -> Tensor:
    """(T, B, G) gradients of U h_{t-1}, (T + 1, B, H) states -> (G, H) gradient of U."""
    return grad.view(-1, grad.shape[2]).t() @ states[:-1].flatten(0, 1)


def rnn(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, recurrent_weight: Tensor, c: Tensor) -> Tensor:
    """(T, B, D), (H, D) W, (H,) b, (B, H) h_0, (H, H) U, (H,) c -> (T, B, H), in the precision of U.

    The input terms are W x_t + b.
    """
    terms = linear(x, weight, bias + c).to(c.dtype)
    return torch.as_tensor(RNN.apply(terms, start.to(c.dtype), recurrent_weight)[1:])


def gru(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, recurrent_weight: Tensor, c: Tensor) -> Tensor:
    """As `rnn`, with weights and biases of r, z and n, one below the other: (3H, D), (3H,), (3H, H), (3H,)."""
    c_rz, c_n = c.split([2 * start.shape[1], start.shape[1]])
    terms = linear(x, weight, bias + torch.cat([c_rz, torch.zeros_like(c_n)])).to(c.dtype)
    return torch.as_tensor(GRU.apply(terms, start.to(c.dtype), recurrent_weight, c_n)[0][1:])
