"""The backward recursion of CTC in linear space: beta, and with alpha the posteriors that the gradient needs.

    blank[i] = next_blank[i] + w next_label[i]
    label[i] = next_label[i] + w next_blank[i+1] + w^2 next_label[i+1], if label i+1 differs

where next_* are beta times emission at the next frame.
"""

import math

import numpy as np

from ds2.ctc.forward import FLOOR
from ds2.ctc.kernel_types import U0, U1, U2, Frame
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

LEAST_OVERLAP = 1e-268  # FLOOR * 1e22: with states times frames at most 1e10, the relative error is below 1e-12


@njit(nogil=True, error_model="numpy", _nrt=False)
def backward_block(trellis, utterance, start, size, scale):  # type: ignore[no-untyped-def]
    """Takes beta through a block, from its end, and subtracts the posteriors from the gradient.

    Returns:
        The scale of the step before the block; NaN where an overlap of alpha and beta is too small to be trusted.
    """
    states, band, w, distinct = trellis.states, trellis.band, trellis.w, trellis.distinct
    gradient, posteriors, outputs = utterance.gradient, states.posteriors, trellis.symbols.outputs
    probabilities, symbol_of_label = trellis.symbols.probabilities, trellis.symbols.of_label
    sums = trellis.symbols.posteriors
    width, count = np.uint64(len(states.skips)), np.uint64(trellis.labels)
    column, columns = U2 * width + U1, len(probabilities) + 1
    for k in range(size - 1, -1, -1):
        t = start + k
        low, high = np.uint64(band.low[t]), np.uint64(band.high[t])
        frame = Frame(np.uint64(k) * width, low, high, probabilities[k, 0], scale)
        own = np.uint64((t + 1) % columns) * column
        # alpha and beta of a frame must overlap by more than FLOOR could have added.
        overlap, blank_posterior, scale = _backward_step(states, frame, t, own, w)
        if not overlap >= LEAST_OVERLAP:
            return math.nan
        # The gradient is softmax - posterior: those of equal labels are added first, and taken from their output once.
        if len(gradient):
            factor = utterance.weight / overlap
            row = utterance.first + t * utterance.stride
            _sum_by_symbol(posteriors, low, min(high, count), symbol_of_label, sums)
            gradient[row + outputs[0]] -= factor * blank_posterior
            for symbol in range(1, distinct):
                gradient[row + outputs[symbol]] -= factor * (sums[0, symbol] + sums[1, symbol])
    return scale


@njit(nogil=True, fastmath=REORDER, _nrt=True)
def _backward_step(states, frame, t, own, w):  # type: ignore[no-untyped-def]
    """beta times emission of frame t, whose alpha begins at `own`, from that of the next frame.

    Returns:
        The overlap sum(alpha beta), the blanks' part of it, and the scale of the next step. `states.posteriors`
        receives the labels' parts.
    """
    alpha, beta, emissions, skips, posteriors = states
    width, low, high, scale = np.uint64(len(skips)), frame.low, frame.high, frame.scale
    overlap, blank_overlap, total = 0.0, 0.0, 0.0
    # beta has two halves, for even and for odd frames: each step reads one and writes the other.
    half = U2 * width
    new_blanks, blanks = (low, half + low) if t % 2 == 0 else (half + low, low)
    new_labels, labels = new_blanks + width, blanks + width
    alpha_blanks = own + low
    alpha_labels, row, skip = alpha_blanks + width + U1, frame.row + low, low + U1
    scaled_blank = frame.blank * scale
    for i in range(high - low):
        # beta of both states.
        blank = beta[blanks + i] + w * beta[labels + i]
        label = beta[labels + i] + w * beta[blanks + U1 + i] + skips[skip + i] * beta[labels + U1 + i]
        blank = FLOOR if blank < FLOOR else blank
        label = FLOOR if label < FLOOR else label
        # Times alpha they are posteriors, not yet divided by their sum.
        blank_overlap += alpha[alpha_blanks + i] * blank
        posterior = alpha[alpha_labels + i] * label
        posteriors[low + i] = posterior
        overlap += posterior
        # Times emission they are what the frame before needs.
        blank *= scaled_blank
        label *= scale * emissions[row + i]
        beta[new_blanks + i] = blank
        beta[new_labels + i] = label
        total += blank + label
    # The states beside the band are 0, for the steps to come.
    beta[new_blanks + high - low], beta[new_labels + high - low] = 0.0, 0.0
    if low > U0:
        beta[new_blanks - U1], beta[new_labels - U1] = 0.0, 0.0
    return overlap + blank_overlap, blank_overlap, 1.0 / total


@njit(nogil=True, _nrt=False)
def _sum_by_symbol(posteriors, low, high, symbol_of_label, sums):  # type: ignore[no-untyped-def]
    """Sums over the labels of each symbol, in two parts, so that equal neighbours do not wait for each other."""
    sums[:] = 0.0
    for i in range(low, high):
        sums[i & U1, symbol_of_label[i]] += posteriors[i]
