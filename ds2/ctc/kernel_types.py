"""Types that the CTC kernels on the CPU share. All arrays of states are flat: a slice would count a reference.

A NamedTuple of arrays counts references to all of them wherever it is unpacked, some 100 ns: the functions that are
called for each block of frames are compiled without reference counts (_nrt=False) and allocate nothing.

States come in pairs, blank i and label i; blanks and labels lie in separate halves, each as wide as all blanks and a
margin, so that each step of the recursion is a vector step (see linear_space).
"""

from typing import NamedTuple

import numpy as np

from ds2.ctc.band import Band

# Indices of inner loops are unsigned: numba tests the sign of others, which costs the vector instructions.
U0, U1, U2 = np.uint64(0), np.uint64(1), np.uint64(2)


class BatchArrays(NamedTuple):
    """The caller's arguments and the arrays for results. Frame t of utterance b starts at starts[b] + t * stride."""

    logits: np.ndarray  # flat, float32 or float64
    starts: np.ndarray  # (B,) of each utterance's scores
    stride: int  # from frame to frame
    frames: int  # T
    outputs: int  # V
    input_lengths: np.ndarray  # (B,) frames
    targets: np.ndarray  # flat int64
    target_starts: np.ndarray  # (B,) of each utterance's labels
    target_lengths: np.ndarray  # (B,) labels
    blank: int
    weights: np.ndarray  # (B,) float64 factors of the gradients
    losses: np.ndarray  # (B,) float64 nats, receives the losses
    gradient: np.ndarray  # as logits, receives the weighted gradients; empty: no gradient is wanted


class UtteranceArrays(NamedTuple):
    """One utterance of a batch."""

    logits: np.ndarray  # of the batch
    gradient: np.ndarray  # of the batch
    first: int  # index of the first score
    stride: int  # from frame to frame
    outputs: int
    frames: int
    labels: np.ndarray  # (L,) int64
    blank: int
    weight: float


class States(NamedTuple):
    """Values of the states; `width` is the number of blanks and a margin."""

    alpha: np.ndarray  # columns of a block and the one before it, in a ring; each: blanks, labels, their sum
    beta: np.ndarray  # beta times emission: blanks and labels, of this frame and of the next
    emissions: np.ndarray  # (frames of a block * width) probability of each label
    skips: np.ndarray  # (width,) factor of the step over the blank before each label: w * w, or 0 between equal labels
    posteriors: np.ndarray  # (width,) of each label, at one frame


class Symbols(NamedTuple):
    """The distinct outputs of an utterance: symbol 0 is the blank."""

    of_output: np.ndarray  # (V,) output -> symbol
    of_label: np.ndarray  # (width,) label -> symbol
    outputs: np.ndarray  # symbol -> output
    probabilities: np.ndarray  # (frames of a block, symbols)
    posteriors: np.ndarray  # (2, symbols) at one frame, in two parts


class Checkpoints(NamedTuple):
    """Columns of alpha from which the blocks after them can be computed again."""

    columns: np.ndarray  # (places, values of a column) alpha before some blocks
    blocks: np.ndarray  # (places,) which blocks


class Workspace(NamedTuple):
    """Memory for utterances up to some length, allocated once a call."""

    states: States
    symbols: Symbols
    checkpoints: Checkpoints
    band: Band
    normalizers: np.ndarray  # (T,) log of the sum of exp of the scores of each frame
    buffer: np.ndarray  # scores on which the softmax works at once


class Trellis(NamedTuple):
    """The states of one utterance and how they are connected."""

    states: States
    symbols: Symbols
    band: Band
    labels: int  # how many
    distinct: int  # symbols in use
    w: float  # factor of every half label (see linear_space)


class Frame(NamedTuple):
    """The part of a frame that one step of the recursion needs."""

    row: int  # index of its first emission
    low: int  # first state
    high: int  # one past the last
    blank: float  # probability of the blank
    scale: float  # factor of the step
