"""Loss and gradient of an utterance in linear space: no logarithm in the loops (Graves et al. 2006, section 4.1).

The trellis of labels "a b" over T frames; blanks and labels lie in separate arrays, so that each step is a vector step:

    blank 0 o--o--o . . .        Only the band of states that can still be reached, and that can still reach the end,
    label a   o--o--o . .        is computed: `band`.
    blank 1     o--o--o .
    label b     . o--o--o        alpha comes from the left: `forward`. beta comes from the right: `backward`.
    blank 2     . . o--o--o

Each column is scaled by the sum of the one before it. The factor w of every half label is the same for all complete
paths, w^2L, and is taken out at the end; it slows or speeds up alpha and beta so that their masses meet in the middle.

Underflow is always noticed. No state falls below FLOOR, so alpha and beta are upper bounds; what FLOOR adds to the
probability is bounded by the overlap of alpha and beta in each frame. Where an overlap is below LEAST_OVERLAP (or NaN)
the answer is "cannot tell", and that utterance is computed again in log space.

beta needs the columns of alpha again. Long utterances keep only some of them, at starts of blocks, and compute the
others again, block by block: once, or several times where there is little room. Columns that beta has passed are
dropped, and new ones are kept ahead of it, at binomial distances (Griewank and Walther 2000, "Revolve").
"""

import math

from ds2.ctc.backward import backward_block
from ds2.ctc.band import find_band
from ds2.ctc.forward import forward_block
from ds2.ctc.kernel_types import Trellis
from ds2.ctc.softmax import softmax
from ds2.ctc.symbols import number_symbols, symbol_probabilities
from ds2.ctc.workspace import distance_to_keep
from ds2.utils.jit import njit


@njit(nogil=True, error_model="numpy")
def ctc_linear_space(utterance, workspace):  # type: ignore[no-untyped-def]
    """(loss, True), or (anything, False) where underflow cannot be excluded.

    The gradient receives weight * (softmax - posteriors); nothing where the labels do not fit into the frames.
    """
    frames = utterance.frames
    # What the labels allow is found first: too many of them end here, before any work.
    if not find_band(utterance.labels, frames, workspace.band):
        return math.inf, True
    if frames == 0:
        return 0.0, True
    softmax(utterance, workspace.normalizers, workspace.buffer)
    trellis = _connect(utterance, workspace)
    kept, scale, loss, product, logarithm = _begin_columns(trellis, frames, workspace.checkpoints), 1.0, 0.0, 1.0, 0.0

    # beta passes from the last block to the first; alpha is computed up to each block before beta comes there. For the
    # last block that is all of alpha, which gives the loss.
    block = len(workspace.symbols.probabilities)
    last = (frames - 1) // block
    for number in range(last, -1, -1):
        kept, product, logarithm = _forward_to(number, trellis, utterance, workspace, kept, product, logarithm)
        if number == last:
            loss = _loss(trellis, frames, product, logarithm)
        start = number * block
        scale = backward_block(trellis, utterance, start, min(block, frames - start), scale)
        if math.isnan(scale):
            return 0.0, False
    return loss, True


@njit(nogil=True, error_model="numpy")
def _connect(utterance, workspace):  # type: ignore[no-untyped-def]
    """The trellis of the utterance, whose band has been found."""
    labels, skips = utterance.labels, workspace.states.skips
    # Equal labels are one symbol, whose probability is computed once; between equal neighbours no path skips the blank.
    count = len(labels)
    distinct = number_symbols(labels, utterance.blank, workspace.symbols)
    w = _tilt(count, utterance.frames)
    for i in range(len(skips)):
        skips[i] = w * w if 0 < i < count and labels[i] != labels[i - 1] else 0.0
    return Trellis(workspace.states, workspace.symbols, workspace.band, count, distinct, w)


@njit(nogil=True)
def _tilt(count, frames):  # type: ignore[no-untyped-def]
    """The w with which alpha advances at count / frames labels a frame where all emissions are alike.

    The largest eigenvalue of one step, x^2 - (2 + w^2) x + 1 = 0, grows with w^2 by the speed v = w / sqrt(w^2 + 4).
    """
    speed = min(max(count / frames, 1e-3), 0.95)
    return math.sqrt(4 * speed * speed / (1 - speed * speed))


@njit(nogil=True)
def _begin_columns(trellis, frames, checkpoints):  # type: ignore[no-untyped-def]
    """Alpha before the first frame, the first checkpoint, and beta after the last; returns 1, the kept columns."""
    beta, width = trellis.states.beta, len(trellis.states.skips)
    checkpoints.columns[0], checkpoints.blocks[0] = 0.0, 0
    checkpoints.columns[0, 0], checkpoints.columns[0, 2 * width] = 1.0, 1.0  # all mass is at the first blank
    beta[:] = 0.0
    beta[trellis.labels + 2 * width * (frames & 1)] = 1.0  # all mass is at the last blank
    return 1


@njit(nogil=True, _nrt=False)
def _forward_to(number, trellis, utterance, workspace, kept, product, logarithm):  # type: ignore[no-untyped-def]
    """Computes alpha from the nearest checkpoint through block `number`, and keeps columns on the way.

    Args:
        kept: columns that are kept.

    Returns:
        How many columns are kept for the blocks before this one; `product` and `logarithm` of `forward_block`.
    """
    columns, blocks = workspace.checkpoints
    alpha, block = trellis.states.alpha, len(trellis.symbols.probabilities)
    column, places = columns.shape[1], len(blocks)
    # alpha starts from the last column that is kept.
    nearest = blocks[kept - 1]
    place = nearest * block % (block + 1) * column
    for i in range(column):
        alpha[place + i] = columns[kept - 1, i]
    # On the way to block `number` it leaves columns behind, as far apart as the free places ask for.
    keep = nearest + distance_to_keep(number + 1 - nearest, places - kept)
    for here in range(nearest, number + 1):
        start, size = here * block, min(block, utterance.frames - here * block)
        if here == keep:
            place = start % (block + 1) * column
            for i in range(column):
                columns[kept, i] = alpha[place + i]
            blocks[kept] = here
            kept += 1
            keep += distance_to_keep(number + 1 - here, places - kept)
        symbol_probabilities(utterance, trellis, start, size, workspace.normalizers)
        product, logarithm = forward_block(trellis, start, size, product, logarithm)
    # The column before block `number` itself is not needed again.
    return kept - (blocks[kept - 1] == number), product, logarithm


@njit(nogil=True, error_model="numpy")
def _loss(trellis, frames, product, logarithm):  # type: ignore[no-untyped-def]
    """-log of the probability, from the last column of alpha and the sums of all columns."""
    alpha, width, count, w = trellis.states.alpha, len(trellis.states.skips), trellis.labels, trellis.w
    end = frames % (len(trellis.symbols.probabilities) + 1) * (2 * width + 1)
    final = alpha[end + count] + (w * alpha[end + count + width] if count else 0.0)
    return 2 * count * math.log(w) - math.log(final / alpha[end + 2 * width]) - logarithm - math.log(product)
