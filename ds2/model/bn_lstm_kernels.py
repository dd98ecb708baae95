"""A BN-LSTM's time step without its matrix products, forward and backward, in vector instructions.

Each column, a unit of a gate or of the cell, is normalised over the utterances that reach the time step:

    columns      i i i f f f g g g o o o
    utterance 0  . . . . . . . . . . . .     mean and variance of each column, downwards;
    utterance 1  . . . . . . . . . . . .     loops run along the rows inside and over utterances outside,
    utterance 2  ended                       so that they are vector instructions

Arrays are flat: terms, recurrent terms, gates (.., B, 4H) of i, f, g, o; states, cells (.., B, H); moments (.., 4H).
"""

import math
from typing import NamedTuple

import numpy as np

from ds2.model.gru_kernels import kernel
from ds2.utils.activations import inlined_fast, sigmoid, tanh


class Minibatch(NamedTuple):
    """A minibatch of B utterances."""

    lengths: np.ndarray  # (B,) frames
    hidden: int  # H
    by_step: bool  # the input term is normalised at each step; False: it comes normalised, and its gamma is 1
    one: np.floating  # 1 and EPSILON in the type of all arrays: a literal would make all float64
    epsilon: np.floating


class Scales(NamedTuple):
    """What the layer learns besides its weights, or the gradients of that."""

    input: np.ndarray  # (4H,) gamma of W x
    recurrent: np.ndarray  # (4H,) gamma of U h
    bias: np.ndarray  # (4H,)
    cell: np.ndarray  # (H,) gamma of c
    beta: np.ndarray  # (H,)


class ColumnMoments(NamedTuple):
    """Statistics of the columns at each of T time steps, (T, 4H) or (T, H)."""

    means: np.ndarray
    variances: np.ndarray
    inverses: np.ndarray  # 1 / deviation


class BNLSTMHistory(NamedTuple):
    """What the forward pass computes at each of T time steps."""

    inputs: np.ndarray  # (T, B, 4H) W x, normalised
    recurrents: np.ndarray  # (T, B, 4H) U h, normalised
    cells: np.ndarray  # (T, B, H) c, normalised
    gates: np.ndarray  # (T, B, 4H) i, f, g, o
    shown: np.ndarray  # (T, B, H) tanh(BN(c))
    c: np.ndarray  # (T + 1, B, H)
    h: np.ndarray  # (T + 1, B, H)
    input_moments: ColumnMoments
    recurrent_moments: ColumnMoments
    cell_moments: ColumnMoments


@inlined_fast
def named_history(history):  # type: ignore[no-untyped-def]
    """A BNLSTMHistory that came as plain tuples."""
    return BNLSTMHistory(
        *history[:7], ColumnMoments(*history[7]), ColumnMoments(*history[8]), ColumnMoments(*history[9])
    )


class BNLSTMGradients(NamedTuple):
    """What the backward pass computes."""

    h: np.ndarray  # (B, H) flowing back through time
    c: np.ndarray  # (B, H) the same
    terms: np.ndarray  # (T, B, 4H) of W x
    recurrent: np.ndarray  # (T, B, 4H) of U h
    scales: Scales
    sums: np.ndarray  # (4H,) scratch
    products: np.ndarray  # (4H,) scratch


@inlined_fast
def named_gradients(gradients):  # type: ignore[no-untyped-def]
    """Gradients that came as plain tuples."""
    return BNLSTMGradients(*gradients[:4], Scales(*gradients[4]), *gradients[5:])


class Rows(NamedTuple):
    """(B, width) numbers of one time step within an array of all of them."""

    values: np.ndarray
    first: int  # place of the first


class Norm(NamedTuple):
    """A normalisation as its backward pass needs it."""

    normalized: Rows
    inverses: np.ndarray
    gamma: np.ndarray
    grad_gamma: np.ndarray


@inlined_fast
def normalize_rows(t, batch, width, source, target, moments):  # type: ignore[no-untyped-def]
    """Rows `target` = (rows `source` - mean) / deviation; the moments are filled in at t."""
    # Three passes: the means; the differences from them, and the variances; the division by the deviation.
    means, variances, inverses = moments
    values, s = source
    results, a = target
    lengths, one, m = batch.lengths, batch.one, t * width
    utterances = np.uint64(len(lengths))
    count = one - one
    for j in range(width):
        means[m + j] = variances[m + j] = count
    for b in range(utterances):
        if t < lengths[b]:
            count += one
            for j in range(width):
                means[m + j] += values[s + b * width + j]
    share = one / count
    for j in range(width):
        means[m + j] *= share
    for b in range(utterances):
        if t < lengths[b]:
            for j in range(width):
                results[a + b * width + j] = values[s + b * width + j] - means[m + j]
            for j in range(width):
                variances[m + j] += results[a + b * width + j] * results[a + b * width + j]
    for j in range(width):
        variances[m + j] *= share
        inverses[m + j] = one / math.sqrt(variances[m + j] + batch.epsilon)
    for b in range(utterances):
        if t < lengths[b]:
            for j in range(width):
                results[a + b * width + j] *= inverses[m + j]


@inlined_fast
def normalize_backward(t, batch, width, rows, norm, sums, products):  # type: ignore[no-untyped-def]
    """Gradient `rows` of gamma * normalized become those of what was normalised; adds to the gradient of gamma.

    With d = gamma * grad: inverse * (d - mean(d) - normalized * mean(d * normalized)).
    """
    # First the sums of the gradient, and of its products with what was normalised: the latter are that of gamma.
    grad, g = rows
    (normalized, a), inverses, gamma, grad_gamma = norm
    lengths, one, m = batch.lengths, batch.one, t * width
    utterances = np.uint64(len(lengths))
    count = one - one
    for j in range(width):
        sums[j] = products[j] = count
    for b in range(utterances):
        if t < lengths[b]:
            count += one
            for j in range(width):
                sums[j] += grad[g + b * width + j]
            for j in range(width):
                products[j] += grad[g + b * width + j] * normalized[a + b * width + j]
    share = one / count
    for j in range(width):
        grad_gamma[j] += products[j]
    for j in range(width):
        sums[j] *= share
        products[j] *= share
    for b in range(utterances):
        if t < lengths[b]:
            for j in range(width):
                centred = grad[g + b * width + j] - sums[j] - normalized[a + b * width + j] * products[j]
                grad[g + b * width + j] = gamma[j] * inverses[m + j] * centred


@kernel
def bn_lstm_forward(t, batch, terms, recurrent, scales, history):  # type: ignore[no-untyped-def]
    """Fills in the history at t: states h_{t+1} and cells c_{t+1} of all utterances; one that has ended keeps its own.

    Args:
        batch, scales, history: Minibatch, Scales, BNLSTMHistory as plain tuples.
        terms: (T, B, 4H) W x.
        recurrent: (B, 4H) U h_t.
    """
    batch, history = Minibatch(*batch), named_history(history)
    gates, shown, c, h = history.gates, history.shown, history.c, history.h
    inputs, recurrents, cells = history.inputs, history.recurrents, history.cells
    gamma_x, gamma_h, bias, gamma_c, beta = scales
    lengths, one = batch.lengths, batch.one
    # a signed index is tested for its sign, which costs the vector instructions
    t, hidden, utterances = np.uint64(t), np.uint64(batch.hidden), np.uint64(len(lengths))
    zero, two = hidden - hidden, hidden + hidden
    three, four = two + hidden, two + two
    wide, narrow = t * utterances * four, t * utterances * hidden
    after = narrow + utterances * hidden

    # Both terms of the gates are normalised by themselves.
    if batch.by_step:
        normalize_rows(t, batch, four, Rows(terms, wide), Rows(inputs, wide), history.input_moments)
    normalize_rows(t, batch, four, Rows(recurrent, zero), Rows(recurrents, wide), history.recurrent_moments)

    # The gates, and the cell that they make.
    for b in range(utterances):
        own, here = wide + b * four, narrow + b * hidden
        there = here + utterances * hidden
        if t < lengths[b]:
            for j in range(four):
                gates[own + j] = gamma_x[j] * inputs[own + j] + gamma_h[j] * recurrents[own + j] + bias[j]
            for j in range(two):
                gates[own + j] = sigmoid(gates[own + j], one)
            for j in range(hidden):
                gates[own + two + j] = tanh(gates[own + two + j], one)
            for j in range(hidden):
                gates[own + three + j] = sigmoid(gates[own + three + j], one)
            for j in range(hidden):
                kept = gates[own + hidden + j] * c[here + j]
                c[there + j] = kept + gates[own + j] * gates[own + two + j]
        else:
            for j in range(hidden):
                c[there + j] = c[here + j]
                h[there + j] = h[here + j]

    # The cell is normalised before the output gate shows it; c itself flows on as it is.
    normalize_rows(t, batch, hidden, Rows(c, after), Rows(cells, narrow), history.cell_moments)
    for b in range(utterances):
        if t < lengths[b]:
            own, here = wide + b * four + three, narrow + b * hidden
            for j in range(hidden):
                shown[here + j] = tanh(gamma_c[j] * cells[here + j] + beta[j], one)
            for j in range(hidden):
                h[here + utterances * hidden + j] = gates[own + j] * shown[here + j]


@kernel
def bn_lstm_backward(t, batch, grad, scales, history, gradients):  # type: ignore[no-untyped-def]
    """Fills in the gradients of terms and recurrent terms at t, by those of h_{t+1} and c_{t+1}; 0 beyond the lengths.

    Of the gradients, c becomes that of c_t. h becomes 0 for utterances that reach t: what flows through U is the
    caller's to add. Those of the scales are sums over time.

    Args:
        batch, scales, history, gradients: Minibatch, Scales, BNLSTMHistory, BNLSTMGradients as plain tuples.
        grad: (T, B, H) of the states, from above.
    """
    batch, scales = Minibatch(*batch), Scales(*scales)
    history, gradients = named_history(history), named_gradients(gradients)
    gates, shown, c = history.gates, history.shown, history.c
    flowing_h, flowing_c, grad_terms, grad_recurrent = gradients.h, gradients.c, gradients.terms, gradients.recurrent
    grad_scales, sums, products = gradients.scales, gradients.sums, gradients.products
    lengths, one = batch.lengths, batch.one
    t, hidden, utterances = np.uint64(t), np.uint64(batch.hidden), np.uint64(len(lengths))
    zero, two = hidden - hidden, hidden + hidden
    three, four = two + hidden, two + two
    wide, narrow = t * utterances * four, t * utterances * hidden
    by_cell = Norm(Rows(history.cells, narrow), history.cell_moments.inverses, scales.cell, grad_scales.cell)
    by_input = Norm(Rows(history.inputs, wide), history.input_moments.inverses, scales.input, grad_scales.input)
    by_recurrent = Norm(
        Rows(history.recurrents, wide), history.recurrent_moments.inverses, scales.recurrent, grad_scales.recurrent
    )

    # Through the output gate: flowing_h holds the gradient of gamma * BN(c) + beta for now.
    for b in range(utterances):
        own, here, at = wide + b * four, narrow + b * hidden, b * hidden
        for j in range(four):
            grad_terms[own + j] = 0
        if t < lengths[b]:
            for j in range(hidden):
                total = flowing_h[at + j] + grad[here + j]
                output = gates[own + three + j]
                grad_terms[own + three + j] = total * shown[here + j] * output * (one - output)
                flowing_h[at + j] = total * output * (one - shown[here + j] * shown[here + j])
            for j in range(hidden):
                grad_scales.beta[j] += flowing_h[at + j]
    normalize_backward(t, batch, hidden, Rows(flowing_h, zero), by_cell, sums, products)

    # Through the cell, to the other gates and to the cell before.
    for b in range(utterances):
        own, here, at = wide + b * four, narrow + b * hidden, b * hidden
        if t < lengths[b]:
            for j in range(hidden):
                flowing_c[at + j] += flowing_h[at + j]
                flowing_h[at + j] = 0
            for j in range(hidden):
                entry, new = gates[own + j], gates[own + two + j]
                grad_terms[own + j] = flowing_c[at + j] * new * entry * (one - entry)
                grad_terms[own + two + j] = flowing_c[at + j] * entry * (one - new * new)
            for j in range(hidden):
                kept = gates[own + hidden + j]
                grad_terms[own + hidden + j] = flowing_c[at + j] * c[here + j] * kept * (one - kept)
            for j in range(hidden):
                flowing_c[at + j] *= gates[own + hidden + j]
            for j in range(four):
                grad_scales.bias[j] += grad_terms[own + j]
        for j in range(four):
            grad_recurrent[own + j] = grad_terms[own + j]

    # Both terms of the gates have the same gradient, until each passes its own normalisation.
    if batch.by_step:
        normalize_backward(t, batch, four, Rows(grad_terms, wide), by_input, sums, products)
    normalize_backward(t, batch, four, Rows(grad_recurrent, wide), by_recurrent, sums, products)
