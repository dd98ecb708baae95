"""A GRU's time step without its matrix product, forward and backward, in vector instructions.

torch needs four and seven operators a step: with the few thousand values of a minibatch's states the calls cost more
than the arithmetic. Arrays are flat: terms, gates and recurrent terms (.., B, 3H) of r, z, n; others
(.., B, H). Each loop is short, so that the compiler sees that its arrays do not overlap. The states and what flows
through them are in the type of `one`; all other arrays may be halves, bfloat16 as its bits in uint16.
"""

import numpy as np

from ds2.utils.bfloat16 import load, store
from ds2.utils.fast_exp import REORDER, exponential
from ds2.utils.jit import njit

kernel = njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
inlined = njit(error_model="numpy", fastmath=REORDER, _nrt=False, forceinline=True)


@inlined
def sigmoid(x, one):  # type: ignore[no-untyped-def]
    """`one` is a 1 of the type of x: a literal would make all float64."""
    power = exponential(-abs(x))
    share = one / (one + power)
    return share if x >= 0 else power * share


@inlined
def tanh(x, one):  # type: ignore[no-untyped-def]
    size = abs(x)
    power = exponential(-(size + size))
    result = (one - power) / (one + power)
    return result if x >= 0 else -result


@kernel
def forward_step(t, batch, hidden, one, terms, recurrent, bias, gates, products, states):  # type: ignore[no-untyped-def]
    """States h_{t+1} of all utterances, with what the backward pass needs.

    Args:
        recurrent: (B, 3H) U h_t. bias: (H,) c_n. terms, states: T of input terms, T + 1 of states, filled in up to t.
        gates, products: r, z, n and U_n h_t + c_n of all time steps, to be filled in.
    """
    t, batch, hidden = np.uint64(t), np.uint64(batch), np.uint64(hidden)  # a signed index is tested for its sign
    for b in range(batch):
        here = (t * batch + b) * hidden
        r, own = here + here + here, b * (hidden + hidden + hidden)
        z, n, own_n, after = r + hidden, r + hidden + hidden, own + hidden + hidden, here + batch * hidden
        for j in range(hidden + hidden):
            store(gates, r + j, sigmoid(load(terms[r + j]) + load(recurrent[own + j]), one))
        for j in range(hidden):
            store(products, here + j, load(recurrent[own_n + j]) + bias[j])
        for j in range(hidden):
            store(gates, n + j, tanh(load(terms[n + j]) + load(gates[r + j]) * load(products[here + j]), one))
        for j in range(hidden):
            states[after + j] = load(gates[n + j]) + load(gates[z + j]) * (states[here + j] - load(gates[n + j]))


@kernel
def backward_step(t, batch, hidden, one, grad, gates, products, states, flowing, grad_terms, grad_recurrent):  # type: ignore[no-untyped-def]
    """Gradients of the terms at t, of the input and of the recurrence, by that of h_{t+1}.

    Args:
        grad: T of gradients of the states from above. flowing: (B, H) gradient of h_{t+1} by all later states; becomes
            that of h_t, without what flows through U.
        grad_terms, grad_recurrent: of all time steps, to be filled in; they differ in n, by the factor r.
    """
    t, batch, hidden = np.uint64(t), np.uint64(batch), np.uint64(hidden)
    for b in range(batch):
        here, own = (t * batch + b) * hidden, b * hidden
        r = here + here + here
        z, n = r + hidden, r + hidden + hidden
        for j in range(hidden):
            flowing[own + j] += grad[here + j]
        for j in range(hidden):
            new, update = load(gates[n + j]), load(gates[z + j])
            store(grad_terms, n + j, flowing[own + j] * (one - update) * (one - new * new))
        for j in range(hidden):
            new, update = load(gates[n + j]), load(gates[z + j])
            store(grad_terms, z + j, flowing[own + j] * (states[here + j] - new) * update * (one - update))
        for j in range(hidden):
            reset = load(gates[r + j])
            store(grad_terms, r + j, load(grad_terms[n + j]) * load(products[here + j]) * reset * (one - reset))
        for j in range(hidden + hidden):
            grad_recurrent[r + j] = grad_terms[r + j]
        for j in range(hidden):
            store(grad_recurrent, n + j, load(grad_terms[n + j]) * load(gates[r + j]))
        for j in range(hidden):
            flowing[own + j] *= load(gates[z + j])
