"""A BN-LSTM's time step without its matrix products, forward and backward, in vector instructions.

Each column, a unit of a gate or of the cell, is normalised over the utterances that reach the time step. Arrays are
flat: terms, recurrent terms and gates (.., B, 4H) of i, f, g, o; states and cells (.., B, H); statistics (.., 4H) or
(.., H). Loops run over columns inside and over utterances outside, so that they are vector instructions.
"""

import math

import numpy as np

from ds2.model.gru_kernels import inlined, kernel, sigmoid, tanh


@inlined
def normalize(t, lengths, batch, width, one, source, s, target, a, stats, m, epsilon):  # type: ignore[no-untyped-def]
    """target[a:] = (source[s:] - mean) / deviation of (B, width) values; the statistics go to places from m on."""
    means, variances, inverses = stats
    count = one - one
    for j in range(width):
        means[m + j] = variances[m + j] = count
    for b in range(batch):
        if t < lengths[b]:
            count += one
            for j in range(width):
                means[m + j] += source[s + b * width + j]
    share = one / count
    for j in range(width):
        means[m + j] *= share
    for b in range(batch):
        if t < lengths[b]:
            for j in range(width):
                target[a + b * width + j] = source[s + b * width + j] - means[m + j]
            for j in range(width):
                variances[m + j] += target[a + b * width + j] * target[a + b * width + j]
    for j in range(width):
        variances[m + j] *= share
        inverses[m + j] = one / math.sqrt(variances[m + j] + epsilon)
    for b in range(batch):
        if t < lengths[b]:
            for j in range(width):
                target[a + b * width + j] *= inverses[m + j]


@inlined
def normalize_backward(  # type: ignore[no-untyped-def]
    t, lengths, batch, width, one, grad, g, normalized, a, inverses, m, gamma, grad_gamma, sums, products
):
    """grad[g:] of gamma * normalized becomes that of what was normalised; adds to the gradient of gamma.

    With d = gamma * grad: inverse * (d - mean(d) - normalized * mean(d * normalized)).
    """
    count = one - one
    for j in range(width):
        sums[j] = products[j] = count
    for b in range(batch):
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
    for b in range(batch):
        if t < lengths[b]:
            for j in range(width):
                centred = grad[g + b * width + j] - sums[j] - normalized[a + b * width + j] * products[j]
                grad[g + b * width + j] = gamma[j] * inverses[m + j] * centred


@kernel
def forward_step(  # type: ignore[no-untyped-def]
    t, lengths, hidden, one, epsilon, terms, recurrent, scales, inputs, recurrents, cells, gates, shown, c, h,
    input_stats, recurrent_stats, cell_stats,
):  # fmt: skip
    """States h_{t+1} and cells c_{t+1} of all utterances, with what the backward pass needs.

    Args:
        lengths: (B,) frames; an utterance that has ended keeps its state.
        terms: T of W x_t. recurrent: (B, 4H) U h_t. scales: gamma_x, gamma_h, b (4H each), gamma_c, beta (H each).
        inputs, recurrents, cells: normalised terms, recurrent terms and cells of all time steps, to be filled in.
        gates, shown: i, f, g, o and tanh(BN(c)) of all time steps, to be filled in.
        c, h: T + 1 of cells and states, filled in up to t.
        input_stats, recurrent_stats, cell_stats: means, variances and 1 / deviations of all time steps.
    """
    gamma_x, gamma_h, bias, gamma_c, beta = scales
    t, hidden, batch = np.uint64(t), np.uint64(hidden), np.uint64(len(lengths))  # a signed index is tested for its sign
    zero, two = hidden - hidden, hidden + hidden
    three, four = two + hidden, two + two
    wide, narrow = t * batch * four, t * batch * hidden
    normalize(t, lengths, batch, four, one, terms, wide, inputs, wide, input_stats, t * four, epsilon)
    normalize(t, lengths, batch, four, one, recurrent, zero, recurrents, wide, recurrent_stats, t * four, epsilon)
    for b in range(batch):
        own, here = wide + b * four, narrow + b * hidden
        after = here + batch * hidden
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
                c[after + j] = kept + gates[own + j] * gates[own + two + j]
        else:
            for j in range(hidden):
                c[after + j] = c[here + j]
                h[after + j] = h[here + j]
    after = narrow + batch * hidden
    normalize(t, lengths, batch, hidden, one, c, after, cells, narrow, cell_stats, t * hidden, epsilon)
    for b in range(batch):
        if t < lengths[b]:
            own, here = wide + b * four + three, narrow + b * hidden
            for j in range(hidden):
                shown[here + j] = tanh(gamma_c[j] * cells[here + j] + beta[j], one)
            for j in range(hidden):
                h[here + batch * hidden + j] = gates[own + j] * shown[here + j]


@kernel
def backward_step(  # type: ignore[no-untyped-def]
    t, lengths, hidden, one, grad, scales, inputs, recurrents, cells, gates, shown, c,
    input_inverses, recurrent_inverses, cell_inverses, flowing_h, flowing_c, grad_terms, grad_recurrent, grad_scales,
    sums, products,
):  # fmt: skip
    """Gradients of terms and recurrent terms at t, by that of h_{t+1} and c_{t+1}.

    Args:
        grad: T of gradients of the states from above.
        flowing_h, flowing_c: (B, H) gradients of h_{t+1} and c_{t+1} by all later states. flowing_c becomes that of
            c_t; flowing_h becomes 0 for utterances that reach t: what flows through U is the caller's to add.
        grad_terms, grad_recurrent: of all time steps, to be filled in; 0 beyond the lengths.
        grad_scales: sums over time of the gradients of `scales`. sums, products: 4H numbers of scratch.
    """
    gamma_x, gamma_h, _, gamma_c, _ = scales
    grad_gamma_x, grad_gamma_h, grad_bias, grad_gamma_c, grad_beta = grad_scales
    t, hidden, batch = np.uint64(t), np.uint64(hidden), np.uint64(len(lengths))
    zero, two = hidden - hidden, hidden + hidden
    three, four = two + hidden, two + two
    wide, narrow = t * batch * four, t * batch * hidden
    for b in range(batch):
        own, here, at = wide + b * four, narrow + b * hidden, b * hidden
        for j in range(four):
            grad_terms[own + j] = 0
        if t < lengths[b]:
            for j in range(hidden):  # flowing_h holds the gradient of gamma * BN(c) + beta for now
                total = flowing_h[at + j] + grad[here + j]
                output = gates[own + three + j]
                grad_terms[own + three + j] = total * shown[here + j] * output * (one - output)
                flowing_h[at + j] = total * output * (one - shown[here + j] * shown[here + j])
            for j in range(hidden):
                grad_beta[j] += flowing_h[at + j]
    normalize_backward(
        t, lengths, batch, hidden, one, flowing_h, zero, cells, narrow, cell_inverses, t * hidden, gamma_c,
        grad_gamma_c, sums, products,
    )  # fmt: skip
    for b in range(batch):
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
                grad_bias[j] += grad_terms[own + j]
        for j in range(four):
            grad_recurrent[own + j] = grad_terms[own + j]
    normalize_backward(
        t, lengths, batch, four, one, grad_terms, wide, inputs, wide, input_inverses, t * four, gamma_x, grad_gamma_x,
        sums, products,
    )  # fmt: skip
    normalize_backward(
        t, lengths, batch, four, one, grad_recurrent, wide, recurrents, wide, recurrent_inverses, t * four, gamma_h,
        grad_gamma_h, sums, products,
    )  # fmt: skip
