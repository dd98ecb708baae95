"""CTC on the CPU: loss and gradient of one utterance after another, in linear space, without logarithms in the loops.

The trellis of labels "a b" over T frames; blanks and labels lie in separate arrays, so that each step is a vector step:

    blank 0 o--o--o . . .        new_blank[i] = y_blank (blank[i] + w label[i-1])
    label a   o--o--o . .        new_label[i] = y_i     (label[i] + w blank[i] + w^2 label[i-1], if label i differs)
    blank 1     o--o--o .
    label b     . o--o--o        Only the band of states that can still be reached, and that can still reach the end,
    blank 2     . . o--o--o      is computed.

Each column is scaled by the sum of the one before it. The factor w of every half label is the same for all complete
paths, w^2L, and is taken out at the end; it slows or hurries alpha and beta so that their masses meet in the middle.

Underflow cannot go unseen. No state falls below FLOOR, so that alpha and beta are upper bounds; what FLOOR adds to the
probability is bounded by the overlap of alpha and beta in each frame. Where an overlap is below LEAST_OVERLAP (or NaN)
the answer is "cannot tell", and that utterance is computed again in log space.

The columns of alpha are needed again when beta comes by. Long utterances keep only some of them, at starts of blocks,
and compute the others again, block by block: once, or several times where there is little room. Behind beta the kept
columns are let go, and new ones are kept before it, at binomial distances (Griewank and Walther 2000, "Revolve").
"""

import math

import numpy as np
from numba import njit

from ds2.ctc.log_space import ctc_log_space
from ds2.ctc.softmax import exponentials, softmax
from ds2.ctc.workspace import distance_to_keep, workspace_for
from ds2.exponential import REORDER

FLOOR = 1e-290
LEAST_OVERLAP = 1e-268  # FLOOR * 1e22: with states times frames at most 1e10, the relative error is below 1e-12
SAFE_PRODUCT = 1e100  # sums of columns are multiplied up to here, or down to its inverse, before a logarithm is taken
U0, U1, U2 = np.uint64(0), np.uint64(1), np.uint64(2)  # indices of the inner loops are unsigned: a signed one is tested
# for being negative, which costs the vector instructions; and arrays are flat: each slice would count a reference


@njit(nogil=True, cache=True, error_model="numpy")
def ctc_utterances(  # type: ignore[no-untyped-def]
    order,
    logits,
    starts,
    stride,
    shape,
    frames,
    targets,
    target_starts,
    target_lengths,
    blank,
    weights,
    losses,
    gradient,
    room,
):
    """Fills in the losses (nats) of the utterances in `order`, and weights[b] times their gradients.

    Args:
        logits, gradient: flat; the V scores of frame t of utterance b start at starts[b] + t * stride. No gradient is
            wanted where it is empty.
        shape: (T, V), the frames of the batch and the outputs.
        targets: flat int64; the labels of utterance b start at target_starts[b].
        losses: float64. inf, with gradient 0, where the labels do not fit into the frames.
        room: float64 values that alpha may take; exceeded where a few columns of it take more.
    """
    longest, most = 1, 0
    for b in order:
        longest, most = max(longest, frames[b]), max(most, target_lengths[b])
    workspace = workspace_for(longest, most, shape[1], logits, room)
    normalizers, piece = workspace[-2], workspace[-1]
    for b in order:
        labels = targets[target_starts[b] : target_starts[b] + target_lengths[b]]
        scores = (logits, starts[b], stride, shape[1])
        losses[b], sure = _linear(scores, frames[b], labels, blank, weights[b], gradient, workspace)
        if not sure:
            softmax(scores, frames[b], weights[b], gradient, normalizers, piece)
            losses[b] = ctc_log_space(scores, frames[b], labels, blank, weights[b], gradient, normalizers)
        if len(gradient):
            for t in range(0 if losses[b] == math.inf else frames[b], shape[0]):
                gradient[starts[b] + t * stride : starts[b] + t * stride + shape[1]] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _linear(scores, frames, labels, blank, weight, gradient, workspace):  # type: ignore[no-untyped-def]
    """(loss, True), or (anything, False) where underflow cannot be excluded."""
    (alpha, kept, kept_blocks, beta, emitted, emissions, skips, posteriors, kind_posteriors, band, kind_of_output,
     kind_of_label, output_of, normalizers, piece) = workspace  # fmt: skip
    count, width = len(labels), len(skips)
    if not find_band(labels, frames, band):
        return math.inf, True
    if frames == 0:
        return 0.0, True
    softmax(scores, frames, weight, gradient, normalizers, piece)
    kinds = _number(labels, blank, kind_of_output, kind_of_label, output_of)
    w = _tilt(count, frames)
    for i in range(width):
        skips[i] = w * w if 0 < i < count and labels[i] != labels[i - 1] else 0.0

    kept[0], kept_blocks[0], keeping = 0.0, 0, 1
    kept[0, 0], kept[0, 2 * width] = 1.0, 1.0  # before the first frame all is at the first blank
    beta[:] = 0.0
    beta[count + 2 * width * (frames & 1)] = 1.0  # after the last frame all is at the last blank
    scale, loss, product, logarithm = 1.0, 0.0, 1.0, 0.0
    block, columns, column = len(emitted), len(emitted) + 1, kept.shape[1]
    last = (frames - 1) // block
    for number in range(last, -1, -1):  # beta passes from the last block to the first, and alpha is there before it
        nearest = kept_blocks[keeping - 1]
        place = nearest * block % columns * column
        alpha[place : place + column] = kept[keeping - 1]
        keep = nearest + distance_to_keep(number + 1 - nearest, len(kept) - keeping)
        for here in range(nearest, number + 1):
            start, size = here * block, min(block, frames - here * block)
            if here == keep:
                place = start % columns * column
                kept[keeping], kept_blocks[keeping] = alpha[place : place + column], here
                keeping += 1
                keep += distance_to_keep(number + 1 - here, len(kept) - keeping)
            _emit(scores, start, size, normalizers, kinds, output_of, emitted)
            product, logarithm = _alpha(
                alpha, column, start, size, emitted, emissions, kind_of_label, skips, w, band, count, product, logarithm
            )
        keeping -= kept_blocks[keeping - 1] == number
        if number == last:
            end = frames % columns * column
            final = alpha[end + count] + (w * alpha[end + count + width] if count else 0.0)
            loss = 2 * count * math.log(w) - math.log(final / alpha[end + 2 * width]) - logarithm - math.log(product)
        scale = _beta(
            beta, start, size, alpha, column, emitted, emissions, skips, w, band, count, scale, posteriors,
            kind_of_label, kinds, output_of, kind_posteriors, scores, weight, gradient,
        )  # fmt: skip
        if math.isnan(scale):
            return 0.0, False
    return loss, True


@njit(nogil=True, cache=True)
def required(labels):  # type: ignore[no-untyped-def]
    """Fewest frames that hold the labels: one each, and a blank between equal neighbours."""
    frames = len(labels)
    for i in range(1, len(labels)):
        frames += labels[i] == labels[i - 1]
    return frames


@njit(nogil=True, cache=True)
def find_band(labels, frames, band):  # type: ignore[no-untyped-def]
    """The states i (blank i or label i) of each frame that lie on a complete path; False if there is no such path.

    Label i is reached after i + repeats(0..i) frames, and needs as many as its successors and their repeats to end.

    Args:
        band: (2, T or more), receives the first such state and one past the last.
    """
    count, left = len(labels), required(labels)
    if left > frames:
        return False
    low, high, reached = 0, 0, 0  # `left` frames are needed from label `low` on; blank `high` is reached at `reached`
    for t in range(frames):
        while high <= count and reached <= t:
            reached += 1 + (0 < high < count and labels[high] == labels[high - 1])
            high += 1
        while low < count and left > frames - t:
            low += 1
            left -= 1 + (low < count and labels[low] == labels[low - 1])
        band[0, t], band[1, t] = low, high
    return True


@njit(nogil=True, cache=True)
def _number(labels, blank, kind_of_output, kind_of_label, output_of):  # type: ignore[no-untyped-def]
    """Numbers the outputs that occur, the blank first; how many there are."""
    for label in labels:
        kind_of_output[label] = 0
    output_of[0], kinds = blank, 1
    for i, label in enumerate(labels):
        if kind_of_output[label] == 0:
            kind_of_output[label] = kinds
            output_of[kinds] = label
            kinds += 1
        kind_of_label[i] = kind_of_output[label]
    return kinds


@njit(nogil=True, cache=True)
def _tilt(count, frames):  # type: ignore[no-untyped-def]
    """The w with which alpha advances at count / frames labels a frame where all emissions are alike.

    The largest eigenvalue of one step, x^2 - (2 + w^2) x + 1 = 0, grows with w^2 by the speed v = w / sqrt(w^2 + 4).
    """
    speed = min(max(count / frames, 1e-3), 0.95)
    return math.sqrt(4 * speed * speed / (1 - speed * speed))


@njit(nogil=True, cache=True)
def _emit(scores, start, size, normalizers, kinds, output_of, emitted):  # type: ignore[no-untyped-def]
    """Probabilities of the kinds, in float64 whatever the scores are, for a block of frames."""
    logits, first, stride, _ = scores
    for k in range(size):
        row = first + (start + k) * stride
        for kind in range(kinds):
            emitted[k, kind] = logits[row + output_of[kind]] - normalizers[start + k]
        for kind in range(kinds, emitted.shape[1]):
            emitted[k, kind] = 0.0
    exponentials(emitted[:size].reshape(-1))


@njit(nogil=True, cache=True)
def _alpha(  # type: ignore[no-untyped-def]
    alpha, column, start, size, emitted, emissions, kind_of_label, skips, w, band, count, product, logarithm
):
    """The columns of a block from the one before it, and `emissions` for the same frames.

    Returns:
        `product` times the columns' sums, of which too large a part has gone into `logarithm`; and that.
    """
    width, count, column = np.uint64(len(skips)), np.uint64(count), np.uint64(column)
    columns = len(emitted) + 1
    for k in range(size):
        t = start + k
        low, high = np.uint64(band[0, t]), np.uint64(band[1, t])
        old, new = np.uint64(t % columns) * column, np.uint64((t + 1) % columns) * column
        row = np.uint64(k) * width
        scale = 1.0 / alpha[old + U2 * width]
        _spread(emitted, k, kind_of_label, low, min(high, count), emissions, row)
        emissions[row + count] = 0.0
        total = _alpha_step(alpha, old, new, low, high, width, emissions, row, skips, emitted[k, 0] * scale, scale, w)
        alpha[new + U2 * width] = total
        labels = new + width + U1  # label i lies at labels + i
        alpha[labels + low - U1] = 0.0
        alpha[labels + count] = 0.0
        alpha[new + high] = 0.0
        alpha[labels + high] = 0.0
        if total < 1.0 / SAFE_PRODUCT:  # as small as FLOOR: its product with another small one would underflow
            logarithm += math.log(total)
            continue
        product *= total
        if not 1.0 / SAFE_PRODUCT < product < SAFE_PRODUCT:
            logarithm += math.log(product)
            product = 1.0
    return product, logarithm


@njit(nogil=True, cache=True)
def _spread(emitted, k, kind_of_label, low, high, emissions, row):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        emissions[row + i] = emitted[k, kind_of_label[i]]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _alpha_step(  # type: ignore[no-untyped-def]
    alpha, old, new, low, high, width, emissions, row, skips, blank_emission, scale, w
):
    """States low..high - 1 of the column at `new` from that at `old`; their sum."""
    total = 0.0
    blanks, new_blanks, row = old + low, new + low, row + low
    labels, new_labels = blanks + width, new_blanks + width + U1  # the label before that blank; the one after it
    for i in range(high - low):
        blank = blank_emission * (alpha[blanks + i] + w * alpha[labels + i])
        label = alpha[labels + U1 + i] + w * alpha[blanks + i] + skips[low + i] * alpha[labels + i]
        label *= scale * emissions[row + i]
        blank = FLOOR if blank < FLOOR else blank
        label = FLOOR if label < FLOOR else label
        alpha[new_blanks + i] = blank
        alpha[new_labels + i] = label
        total += blank + label
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def _beta(  # type: ignore[no-untyped-def]
    beta,
    start,
    size,
    alpha,
    column,
    emitted,
    emissions,
    skips,
    w,
    band,
    count,
    scale,
    posteriors,
    kind_of_label,
    kinds,
    output_of,
    kind_posteriors,
    scores,
    weight,
    gradient,
):
    """Passes beta through a block, and takes the posteriors off the gradient; NaN where an overlap is too small.

    Returns:
        The scale of the step before the block.
    """
    width, blank, columns = np.uint64(len(skips)), output_of[0], len(emitted) + 1
    for k in range(size - 1, -1, -1):
        t = start + k
        low, high = np.uint64(band[0, t]), np.uint64(band[1, t])
        overlap, blank_posterior, scale = _beta_step(
            beta, t, low, high, width, alpha, np.uint64((t + 1) % columns * column), emissions, np.uint64(k) * width,
            skips, posteriors, emitted[k, 0], scale, w,
        )  # fmt: skip
        if not overlap >= LEAST_OVERLAP:
            return math.nan
        if len(gradient):
            factor = weight / overlap
            row = scores[1] + t * scores[2]
            _gather_posteriors(posteriors, low, min(high, np.uint64(count)), kind_of_label, kind_posteriors)
            gradient[row + blank] -= factor * blank_posterior
            for kind in range(1, kinds):
                gradient[row + output_of[kind]] -= factor * (kind_posteriors[0, kind] + kind_posteriors[1, kind])
    return scale


@njit(nogil=True, cache=True, fastmath=REORDER)
def _beta_step(  # type: ignore[no-untyped-def]
    beta, t, low, high, width, alpha, column, emissions, row, skips, posteriors, blank_emission, scale, w
):
    """beta times emission of frame t, whose alpha begins at `column`, from that of frame t + 1.

    Returns:
        The overlap sum(alpha beta), the blanks' part of it, and the scale of the next step. `posteriors` receives the
        labels' parts.
    """
    overlap, blank_overlap, total = 0.0, 0.0, 0.0
    half = U2 * width
    new_blanks, blanks = (low, half + low) if t % 2 == 0 else (half + low, low)
    new_labels, labels = new_blanks + width, blanks + width
    alpha_blanks = column + low
    alpha_labels, row, skip = alpha_blanks + width + U1, row + low, low + U1
    blank_emission *= scale
    for i in range(high - low):
        blank = beta[blanks + i] + w * beta[labels + i]
        label = beta[labels + i] + w * beta[blanks + U1 + i] + skips[skip + i] * beta[labels + U1 + i]
        blank = FLOOR if blank < FLOOR else blank
        label = FLOOR if label < FLOOR else label
        blank_overlap += alpha[alpha_blanks + i] * blank
        posterior = alpha[alpha_labels + i] * label
        posteriors[low + i] = posterior
        overlap += posterior
        blank *= blank_emission
        label *= scale * emissions[row + i]
        beta[new_blanks + i] = blank
        beta[new_labels + i] = label
        total += blank + label
    beta[new_blanks + high - low], beta[new_labels + high - low] = 0.0, 0.0
    if low > U0:
        beta[new_blanks - U1], beta[new_labels - U1] = 0.0, 0.0
    return overlap + blank_overlap, blank_overlap, 1.0 / total


@njit(nogil=True, cache=True)
def _gather_posteriors(posteriors, low, high, kind_of_label, sums):  # type: ignore[no-untyped-def]
    """Sums over the labels of each kind; in two parts, so that neighbours of a kind do not wait for each other."""
    sums[:] = 0.0
    for i in range(low, high):
        sums[i & U1, kind_of_label[i]] += posteriors[i]
