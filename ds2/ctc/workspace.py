"""Memory of the CTC kernels on the CPU: how much of alpha is kept, and which columns (see linear_space)."""

import math

import numpy as np

from ds2.ctc.band import Band
from ds2.ctc.kernel_types import Checkpoints, States, Symbols, Workspace
from ds2.utils.jit import njit

BLOCK_VALUES = 1 << 14  # float64 values of alpha in one block: 128 KiB, well within the second-level cache
SHORTEST_BLOCK = 2  # frames
LEAST_KEPT = 8  # columns
SOFTMAX_VALUES = 1 << 12  # scores that the softmax works on at once: 16 KiB, within the first-level cache
MARGIN = 3  # unused states at the end of a column: its loops need no special cases


@njit(nogil=True)
def workspace_for(frames, most, outputs, logits, room):  # type: ignore[no-untyped-def]
    """A `Workspace` for utterances of up to `frames` frames and `most` labels.

    Args:
        room: float64 values that alpha may take.
    """
    width, symbols = most + 1 + MARGIN, min(most, outputs) + 1
    column = 2 * width + 1
    block, kept = size_blocks(frames, column, column + width + symbols, room)
    return Workspace(
        States(
            np.zeros((block + 1) * column), np.zeros(4 * width), np.zeros(block * width), np.zeros(width),
            np.zeros(width),
        ),
        Symbols(
            np.zeros(outputs, np.uint64), np.zeros(width, np.uint64), np.zeros(symbols, np.int64),
            np.zeros((block, symbols)), np.zeros((2, symbols)),
        ),
        Checkpoints(np.zeros((kept, column)), np.zeros(kept, np.int64)),
        Band(np.zeros(frames, np.uint32), np.zeros(frames, np.uint32)),
        np.zeros(frames),
        np.zeros(max(SOFTMAX_VALUES, outputs), logits.dtype),
    )  # fmt: skip


@njit(nogil=True)
def size_blocks(frames, column, frame, room):  # type: ignore[no-untyped-def]
    """Frames of a block, and how many columns to keep.

    The longest blocks for which the cache and the room also hold a column of each block: block * frame + (frames /
    block + 1) * column <= room. Where a column of each does not fit, short blocks.

    Args:
        column: values of a kept column.
        frame: values for each frame of a block.
    """
    # block solves the quadratic equation above, but is not longer than the cache or sqrt(frames) asks for.
    spare = room - column
    root = spare * spare - 4.0 * frame * column * frames
    if root >= 0:
        block = min((spare + math.sqrt(root)) / (2 * frame), max(BLOCK_VALUES / column, math.sqrt(frames)))
    else:
        block = room / (2.5 * frame)
    size = min(frames, max(SHORTEST_BLOCK, int(block)))
    blocks = (frames - 1) // size + 1
    return size, max(min(LEAST_KEPT, blocks), min(blocks, (spare - size * frame) // column))


@njit(nogil=True)
def distance_to_keep(blocks, free):  # type: ignore[no-untyped-def]
    """How many blocks after a kept column to keep the next, with `blocks` to pass and places for `free` columns.

    binomial(free + times, times - 1) blocks can be passed if none is to be computed more than `times` times. The next
    column lies as near as it can be for that to be enough.
    """
    if free == 0:
        return blocks
    # The fewest passes that reach all blocks.
    times, reach = 1, 1
    while reach < blocks:
        times += 1
        reach = reach * (free + times) // (times - 1)
    return max(1, blocks - reach * (free + 1) // (free + times))
