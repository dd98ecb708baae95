"""The time steps of the recurrent cells without their matrix products, of an utterance, inside kernels."""

from typing import NamedTuple

import numpy as np

from ds2.model.cells import GRU, LSTM, RNN
from ds2.model.config import CLIP
from ds2.utils.activations import inlined_fast, sigmoid, tanh

ONE, ZERO, MOST = np.float32(1), np.float32(0), np.float32(CLIP)


class Run(NamedTuple):
    """The frames of B utterances; `states` and `cells` begin with those before the first frame."""

    terms: np.ndarray  # (T, B, G H) W x_t
    valid: np.ndarray  # (T, B) boolean: where not, the state after the frame is 0
    states: np.ndarray  # (T + 1, B, H)
    cells: np.ndarray  # (T + 1, B, H) of an LSTM
    recurrent: np.ndarray  # (B, G H) U h + c of the present frame


def begin_run(terms: np.ndarray, valid: np.ndarray, start: tuple[np.ndarray, ...]) -> Run:
    """A run from the state before the first frame, (B, H) of each part."""
    time, batch, size = terms.shape
    # The states of all frames and the one before them lie in one array, so that each frame reads what the last has
    # written.
    stores = [np.empty((time + 1, *part.shape), np.float32) for part in start]
    for store, part in zip(stores, start, strict=True):
        store[0] = part
    recurrent = np.empty((batch, size), np.float32)
    return Run(np.ascontiguousarray(terms), np.ascontiguousarray(valid), stores[0], stores[-1], recurrent)


@inlined_fast
def fill_state(cell, frames, t, b):  # type: ignore[no-untyped-def]
    """Fills in the state of utterance b after frame t; `cell` is the branch that CELLS names."""
    terms, own, after = frames.terms[t, b], frames.recurrent[b], frames.states[t + 1, b]
    if cell == GRU:
        _gru(terms, own, frames.states[t, b], after)
    elif cell == LSTM:
        _lstm(terms, own, frames.cells[t, b], frames.cells[t + 1, b], after)
    elif cell == RNN:
        for j in range(len(after)):
            after[j] = min(max(terms[j] + own[j], ZERO), MOST)
    # Outside its utterance a state is 0, as it is before the first frame.
    if not frames.valid[t, b]:
        after[:] = ZERO
        if cell == LSTM:
            frames.cells[t + 1, b] = ZERO


@inlined_fast
def _gru(terms, recurrent, before, after):  # type: ignore[no-untyped-def]
    size = len(after)
    for j in range(2 * size):
        recurrent[j] = sigmoid(terms[j] + recurrent[j], ONE)
    r, z, n = recurrent[:size], recurrent[size : 2 * size], recurrent[2 * size :]
    own = terms[2 * size :]
    for j in range(size):
        new = tanh(own[j] + r[j] * n[j], ONE)
        after[j] = new + z[j] * (before[j] - new)


@inlined_fast
def _lstm(terms, recurrent, before, cell, after):  # type: ignore[no-untyped-def]
    size = len(after)
    for j in range(4 * size):
        recurrent[j] += terms[j]
    i, f, g, o = recurrent[:size], recurrent[size : 2 * size], recurrent[2 * size : 3 * size], recurrent[3 * size :]
    for j in range(size):
        cell[j] = sigmoid(f[j], ONE) * before[j] + sigmoid(i[j], ONE) * tanh(g[j], ONE)
    for j in range(size):
        after[j] = sigmoid(o[j], ONE) * tanh(cell[j], ONE)
