"""The recurrences of simple RNN and GRU for training on a CPU, forward and backward over time by hand.

torch's own kernels add the gradient of the recurrent weight to the whole matrix at every time step, which for wide
layers takes longer than all else. Here it is one product over all time steps, behind the loop. The loops are Python's;
what they call is large enough for that not to matter.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ds2.model.normalization import CLIP


class RNN(torch.autograd.Function):
    """h_t = clipped_relu(x_t + U h_{t-1} + c)"""

    @staticmethod
    def forward(terms: Tensor, start: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(T, B, H) input terms x, (B, H) h_0, (H, H) U, (H,) c -> (T + 1, B, H) h_0 to h_T."""
        states = terms.new_empty(len(terms) + 1, *start.shape)
        states[0] = start
        transposed, rows = weight.t(), states.unbind()
        for term, before, after in zip((terms + bias).unbind(), rows[:-1], rows[1:], strict=True):
            torch.addmm(term, before, transposed, out=after).clamp_(0.0, CLIP)
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
        rows = zip(grad[1:].unbind(), slopes.unbind(), grad_terms.unbind(), strict=True)
        for own, slope, grad_term in reversed(list(rows)):
            torch.mul(flowing.add_(own), slope, out=grad_term)
            flowing = grad_term @ weight
        return grad_terms, flowing + grad[0], over_time(grad_terms, states), grad_terms.sum((0, 1))


class GRU(torch.autograd.Function):
    """r, z = sigmoid(x_t + U h_{t-1} + c);  n = tanh(x_t + r * (U_n h_{t-1} + c_n));  h_t = (1 - z) n + z h_{t-1}"""

    @staticmethod
    def forward(terms: Tensor, start: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(T, B, 3H) input terms of r, z, n, (B, H) h_0, (3H, H) U, (3H,) c -> (T + 1, B, H) h_0 to h_T; and for the
        backward pass (T, B, 3H) r, z, n, and (T, B, H) U_n h_{t-1} + c_n."""
        hidden = start.shape[1]
        states = terms.new_empty(len(terms) + 1, *start.shape)
        states[0] = start
        gates, products = torch.empty_like(terms), torch.empty_like(states[1:])
        transposed, rows, recurrent = weight.t(), states.unbind(), torch.empty_like(terms[0])
        two = [2 * hidden, hidden]
        recurrent_rz, recurrent_n = recurrent.split(two, 1)
        for term, before, after, gate, product in zip(
            terms.unbind(), rows[:-1], rows[1:], gates.unbind(), products.unbind(), strict=True
        ):
            torch.addmm(bias, before, transposed, out=recurrent)
            product.copy_(recurrent_n)
            term_rz, term_n = term.split(two, 1)
            r, z, n = gate.split(hidden, 1)
            torch.add(term_rz, recurrent_rz, out=gate[:, : 2 * hidden]).sigmoid_()
            torch.addcmul(term_n, r, product, out=n).tanh_()
            torch.lerp(n, before, z, out=after)
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
        flowing = torch.zeros_like(grad[0])
        weight_rz, weight_n = weight[: 2 * hidden], weight[2 * hidden :]
        parts = (grad[1:], slope_n, slope_z, slope_r, r, z, grad_terms, grad_products)
        for own, by_n, by_z, by_r, reset, update, now, product in reversed(
            list(zip(*(part.unbind() for part in parts), strict=True))
        ):
            now_r, now_z, now_n = now.split(hidden, 1)
            flowing.add_(own)
            torch.mul(flowing, by_n, out=now_n)
            torch.mul(flowing, by_z, out=now_z)
            torch.mul(now_n, by_r, out=now_r)
            torch.mul(now_n, reset, out=product)
            flowing = flowing.mul_(update).addmm_(now[:, : 2 * hidden], weight_rz).addmm_(product, weight_n)
        grads_rz = grad_terms[..., : 2 * hidden]
        grad_weight = torch.cat([over_time(grads_rz, states), over_time(grad_products, states)])
        grad_bias = torch.cat([grads_rz.sum((0, 1)), grad_products.sum((0, 1))])
        return grad_terms, flowing + grad[0], grad_weight, grad_bias


def over_time(grad: Tensor, states: Tensor) -> Tensor:
    """(T, B, G) gradients of U h_{t-1}, (T + 1, B, H) states -> (G, H) gradient of U."""
    return grad.view(-1, grad.shape[2]).t() @ states[:-1].flatten(0, 1)


def rnn(terms: Tensor, start: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(T, B, H) input terms, (B, H) first state, (H, H), (H,) -> (T, B, H) states, in the precision of the weights."""
    return torch.as_tensor(RNN.apply(terms.to(weight.dtype), start.to(weight.dtype), weight, bias)[1:])


def gru(terms: Tensor, start: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As `rnn`, of (T, B, 3H) terms, (3H, H) and (3H,)."""
    return torch.as_tensor(GRU.apply(terms.to(weight.dtype), start.to(weight.dtype), weight, bias)[0][1:])
