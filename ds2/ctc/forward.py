"""The forward recursion of CTC in linear space: alpha, block by block (see linear_space).

new_blank[i] = y_blank (blank[i] + w label[i-1])
new_label[i] = y_i     (label[i] + w blank[i] + w^2 label[i-1], if label i differs)
"""

import math

import numpy as np

from ds2.ctc.kernel_types import U1, U2, Frame
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

FLOOR = 1e-290  # of each state
SAFE_PRODUCT = 1e100  # sums of columns are multiplied up to here, or down to its inverse, before a logarithm is taken


@njit(nogil=True, _nrt=False)
def forward_block(trellis, start, size, product, logarithm):  # type: ignore[no-untyped-def]
    """The columns of a block from the one before it, and the labels' emissions at the same frames.

    Returns:
        `product` times the columns' sums, of which too large or small a part has moved into `logarithm`; and that.
    """
    states, band, w = trellis.states, trellis.band, trellis.w
    alpha, emissions = states.alpha, states.emissions
    probabilities, symbol_of_label = trellis.symbols.probabilities, trellis.symbols.of_label
    width, count = np.uint64(len(states.skips)), np.uint64(trellis.labels)
    column, columns = U2 * width + U1, len(probabilities) + 1
    for k in range(size):
        # A step goes from column t of the ring to the next, scaled by the sum of the one before.
        t = start + k
        low, high = np.uint64(band.low[t]), np.uint64(band.high[t])
        old, new = np.uint64(t % columns) * column, np.uint64((t + 1) % columns) * column
        row = np.uint64(k) * width
        scale = 1.0 / alpha[old + U2 * width]
        _spread(probabilities, k, symbol_of_label, low, min(high, count), emissions, row)
        emissions[row + count] = 0.0
        frame = Frame(row, low, high, probabilities[k, 0], scale)
        total = _forward_step(states, frame, old, new, w)
        alpha[new + U2 * width] = total

        # The states beside the band are 0, for the steps to come.
        labels = new + width + U1  # place of label 0
        alpha[labels + low - U1] = 0.0
        alpha[labels + count] = 0.0
        alpha[new + high] = 0.0
        alpha[labels + high] = 0.0

        # The sums multiply to the likelihood. A logarithm is taken only where their product leaves the safe range, or
        # where a sum is as small as FLOOR: its product with another small one would underflow.
        if total < 1.0 / SAFE_PRODUCT:
            logarithm += math.log(total)
            continue
        product *= total
        if not 1.0 / SAFE_PRODUCT < product < SAFE_PRODUCT:
            logarithm += math.log(product)
            product = 1.0
    return product, logarithm


@njit(nogil=True, _nrt=False)
def _spread(probabilities, k, symbol_of_label, low, high, emissions, row):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        emissions[row + i] = probabilities[k, symbol_of_label[i]]


@njit(nogil=True, fastmath=REORDER, _nrt=True)
def _forward_step(states, frame, old, new, w):  # type: ignore[no-untyped-def]
    """States low..high - 1 of the column at `new` from that at `old`; their sum."""
    alpha, emissions, skips, width = states.alpha, states.emissions, states.skips, np.uint64(len(states.skips))
    low, row, scale = frame.low, frame.row + frame.low, frame.scale
    blanks, new_blanks = old + low, new + low
    # Of the old column the label before each blank, of the new one the label after it.
    labels, new_labels = blanks + width, new_blanks + width + U1
    scaled_blank, total = frame.blank * scale, 0.0
    for i in range(frame.high - low):
        blank = scaled_blank * (alpha[blanks + i] + w * alpha[labels + i])
        label = alpha[labels + U1 + i] + w * alpha[blanks + i] + skips[low + i] * alpha[labels + i]
        label *= scale * emissions[row + i]
        blank = FLOOR if blank < FLOOR else blank
        label = FLOOR if label < FLOOR else label
        alpha[new_blanks + i] = blank
        alpha[new_labels + i] = label
        total += blank + label
    return total
