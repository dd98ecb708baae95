"""Memory of the CTC kernels on the CPU: how much of alpha is kept, and which columns (see numba_kernels)."""

import math

import numpy as np
from numba import njit

BLOCK_VALUES = 1 << 14  # float64 values of alpha in one block: 128 KiB, well within the second-level cache
SHORTEST_BLOCK = 2  # frames
LEAST_KEPT = 8  # columns
SOFTMAX_VALUES = 1 << 12  # scores in one piece of the softmax: 16 KiB, within the first-level cache
MARGIN = 3  # unused states at the end of a column: its loops need no special cases


@njit(nogil=True, cache=True)
def workspace_for(frames, most, outputs, logits, room):  # type: ignore[no-untyped-def]
    """Arrays for utterances of up to `frames` frames and `most` labels, allocated once a call."""
    width, kinds = most + 1 + MARGIN, min(most, outputs) + 1
    column = 2 * width + 1
    block, kept = divide(frames, column, column + width + kinds, room)
    return (
        np.zeros((block + 1) * column),  # alpha of a block and of the frame before it, in a ring: blanks, labels, sum
        np.zeros((kept, column)),  # alpha of the frame before some blocks
        np.zeros(kept, np.int64),  # which blocks
        np.zeros(4 * width),  # beta times emission: blanks and labels of this frame and of the next
        np.zeros((block, kinds)),  # probability of each kind of label: of each output that the labels hold, and blank
        np.zeros(block * width),  # the same, label by label
        np.zeros(width),  # factor of the step over a blank
        np.zeros(width),  # posterior of each label
        np.zeros((2, kinds)),  # posterior of each kind, in two parts
        np.zeros((2, frames), np.uint32),  # the band of each frame: first state, and one past the last
        np.zeros(outputs, np.uint64),  # output -> kind
        np.zeros(width, np.uint64),  # label -> kind
        np.zeros(kinds, np.int64),  # kind -> output; kind 0 is the blank
        np.zeros(frames),  # log of the sum of exp of the scores of each frame
        np.zeros(max(SOFTMAX_VALUES, outputs), logits.dtype),
    )


@njit(nogil=True, cache=True)
def divide(frames, column, frame, room):  # type: ignore[no-untyped-def]
    """Frames of a block, and how many columns to keep.

    The longest blocks that the cache and the room hold beside a column of each block: block * frame + (frames / block
    + 1) * column <= room. Where there is no room for a column of each, short blocks.

    Args:
        column: values of a kept column.
        frame: values for each frame of a block.
    """
    spare = room - column
    root = spare * spare - 4.0 * frame * column * frames
    if root >= 0:
        block = min((spare + math.sqrt(root)) / (2 * frame), max(BLOCK_VALUES / column, math.sqrt(frames)))
    else:
        block = room / (2.5 * frame)
    size = min(frames, max(SHORTEST_BLOCK, int(block)))
    blocks = (frames - 1) // size + 1
    return size, max(min(LEAST_KEPT, blocks), min(blocks, (spare - size * frame) // column))


@njit(nogil=True, cache=True)
def distance_to_keep(blocks, free):  # type: ignore[no-untyped-def]
    """How many blocks behind a kept column to keep the next, with `blocks` to pass and places for `free` columns.

    binomial(free + times, times - 1) blocks can be passed if none is to be computed more than `times` times. The next
    column lies as near as it can be for that to be enough.
    """
    if free == 0:
        return blocks
    times, reach = 1, 1
    while reach < blocks:
        times += 1
        reach = reach * (free + times) // (times - 1)
    return max(1, blocks - reach * (free + 1) // (free + times))
