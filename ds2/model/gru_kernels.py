"""A GRU's time step without its matrix product, forward and backward, in vector instructions.

torch needs four and seven operators a step: with the few thousand values of a minibatch's states the calls cost more
than the arithmetic. Arrays are flat: terms, gates and recurrent terms (.., B, 3H) of r, z, n; others
(.., B, H). Each loop is short, so that the compiler sees that its arrays do not overlap. The states and what flows
through them are in the type of `one`; all other arrays may be halves, bfloat16 as its bits in uint16.
"""

from typing import NamedTuple

import numpy as np

from ds2.utils.activations import sigmoid, tanh
from ds2.utils.bfloat16 import real, store
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

kernel = njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)


class GRUHistory(NamedTuple):
    """What the forward pass computes at each of T time steps."""

    gates: np.ndarray  # (T, B, 3H) r, z, n
    products: np.ndarray  # (T, B, H) U_n h_t + c_n
    states: np.ndarray  # (T + 1, B, H)


class GRUGradients(NamedTuple):
    """What the backward pass computes."""

    flowing: np.ndarray  # (B, H) of h_{t+1}, by all later states
    terms: np.ndarray  # (T, B, 3H)
    recurrent: np.ndarray  # (T, B, 3H) of U h_t: those of the terms but for n, by the factor r


@kernel
def gru_forward(t, batch, hidden, one, terms, recurrent, bias, history):  # type: ignore[no-untyped-def]
    """Fills in the history at t: states h_{t+1} of all utterances, with what the backward pass needs.

    Args:
        terms: (T, B, 3H) input terms.
        recurrent: (B, 3H) U h_t.
        bias: (H,) c_n.
        history: GRUHistory as a plain tuple.
    """
    gates, products, states = history
    t, batch, hidden = np.uint64(t), np.uint64(batch), np.uint64(hidden)  # a signed index is tested for its sign
    for b in range(batch):
        here = (t * batch + b) * hidden
        r, own = here + here + here, b * (hidden + hidden + hidden)
        z, n, own_n, after = r + hidden, r + hidden + hidden, own + hidden + hidden, here + batch * hidden
        for j in range(hidden + hidden):
            store(gates, r + j, sigmoid(real(terms[r + j]) + real(recurrent[own + j]), one))
        for j in range(hidden):
            store(products, here + j, real(recurrent[own_n + j]) + bias[j])
        for j in range(hidden):
            store(gates, n + j, tanh(real(terms[n + j]) + real(gates[r + j]) * real(products[here + j]), one))
        for j in range(hidden):
            states[after + j] = real(gates[n + j]) + real(gates[z + j]) * (states[here + j] - real(gates[n + j]))


@kernel
def gru_backward(t, batch, hidden, one, grad, history, gradients):  # type: ignore[no-untyped-def]
    """Fills in the gradients of the terms at t, of the input and of the recurrence, by that of h_{t+1}.

    `flowing` becomes the gradient of h_t, without what flows through U.

    Args:
        grad: (T, B, H) of the states, from above.
        history, gradients: GRUHistory, GRUGradients as plain tuples.
    """
    gates, products, states = history
    flowing, grad_terms, grad_recurrent = gradients
    t, batch, hidden = np.uint64(t), np.uint64(batch), np.uint64(hidden)
    for b in range(batch):
        here, own = (t * batch + b) * hidden, b * hidden
        r = here + here + here
        z, n = r + hidden, r + hidden + hidden
        # The gradient of a state is what comes from above and what flows back through later frames.
        for j in range(hidden):
            flowing[own + j] += grad[here + j]
        # Through h' = n + z (h - n): to n, then to z.
        for j in range(hidden):
            new, update = real(gates[n + j]), real(gates[z + j])
            store(grad_terms, n + j, flowing[own + j] * (one - update) * (one - new * new))
        for j in range(hidden):
            new, update = real(gates[n + j]), real(gates[z + j])
            store(grad_terms, z + j, flowing[own + j] * (states[here + j] - new) * update * (one - update))
        # Through the product r (U h + c) within n: to r.
        for j in range(hidden):
            reset = real(gates[r + j])
            store(grad_terms, r + j, real(grad_terms[n + j]) * real(products[here + j]) * reset * (one - reset))
        # U h enters r and z as the input does, and n by the factor r.
        for j in range(hidden + hidden):
            grad_recurrent[r + j] = grad_terms[r + j]
        for j in range(hidden):
            store(grad_recurrent, n + j, real(grad_terms[n + j]) * real(gates[r + j]))
        # What the state passes on directly, by z.
        for j in range(hidden):
            flowing[own + j] *= real(gates[z + j])
