"""Recurrent layers as ds2/model/recurrent.py defines them: the input terms in one product, then frame by frame.

All frames of a few utterances are one call of a kernel, because the calls of a frame cost more than its arithmetic.
"""

from collections.abc import Callable

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.cell_steps import begin_run, fill_state
from ds2.model.cells import Cell
from ds2.model.config import CLIP, ModelConfig
from ds2.model.native.few_rows import FEW, multiply_few_rows
from ds2.model.native.layers import linear
from ds2.model.native.slots import SlotBatch
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

CACHED = 1 << 20  # bytes of U that a core's cache holds: the kernel takes any number of utterances
State = tuple[np.ndarray, ...]  # (B, H) h, of an LSTM also c, of a BN-LSTM also (B, 1) frames so far
Step = Callable[..., State]  # input terms, recurrent terms, state -> the next state


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
def fill_states_of_few(frames, cell, weight, bias):  # type: ignore[no-untyped-def]
    """Fills in all states of a `Run`; `cell` is the branch that CELLS names, (G H, H) U and (G H,) c."""
    recurrent = frames.recurrent
    for t in range(len(frames.terms)):
        multiply_few_rows(frames.states[t], weight, recurrent)
        for b in range(len(recurrent)):
            for j in range(len(bias)):
                recurrent[b, j] += bias[j]
            fill_state(cell, frames, t, b)


class NativeDirection:
    """One direction of any cell."""

    def __init__(self, config: ModelConfig, inputs: int, layer: LayerWeights):
        rows = len(config.spec.gates) * config.hidden
        self.widths = (config.hidden,) * len(config.spec.state)
        self.step: Step
        self.weight = layer.shaped("input_weight", rows, inputs)
        if config.spec.step_statistics:
            self.bias = np.zeros(rows, np.float32)
            self.recurrent_bias, self.step = self.bias, NativeBNLSTMStep(config.hidden, layer)
            self.widths += (1,)
        else:
            self.weight, self.bias = layer.folded("input_weight", config)
            self.recurrent_bias, self.step = layer.shaped("recurrent_bias", rows), STEPS[config.cell]
        self.recurrent_weight = layer.shaped("recurrent_weight", rows, config.hidden)
        self.branch = config.spec.branch

    def __call__(self, x: np.ndarray, valid: np.ndarray, state: State = ()) -> tuple[np.ndarray, State]:
        """(B, T, D), (B, T, 1) 0 or 1, state before the first frame, by default 0 -> (B, T, H), the last state."""
        state = state or tuple(np.zeros((len(x), width), np.float32) for width in self.widths)
        if self.branch is not None and (len(x) <= FEW or self.recurrent_weight.nbytes <= CACHED):
            terms = linear(x.swapaxes(0, 1), self.weight, self.bias)
            run = begin_run(terms, valid[:, :, 0].T > 0, state)
            fill_states_of_few(run, self.branch, self.recurrent_weight, self.recurrent_bias)
            return run.states[1:].swapaxes(0, 1), (run.states[-1], run.cells[-1])[: len(state)]
        terms = linear(x, self.weight, self.bias)
        rows = np.empty((*x.shape[:2], self.widths[0]), np.float32)
        for frame in range(x.shape[1]):
            recurrent = linear(state[0][None], self.recurrent_weight, self.recurrent_bias)[0]
            found = self.step(terms[:, frame], recurrent, *state)
            state = tuple(part * valid[:, frame] for part in found)  # 0 until the first frame
            rows[:, frame] = state[0]
        return rows, state


class NativeRecurrentLayer:
    """A forward direction and, if bidirectional, a backward one over the same input, summed."""

    def __init__(self, number: int, config: ModelConfig, inputs: int, layer: LayerWeights):
        self.config, self.name = config, f"recurrent.{number}"
        self.forwards = NativeDirection(config, inputs, layer.under("forwards"))
        self.backwards = NativeDirection(config, inputs, layer.under("backwards")) if config.bidirectional else None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(1, T, D) of a whole utterance -> (1, T, H)."""
        rows, _ = self.forwards(x, np.ones((1, x.shape[1], 1), np.float32))
        if self.backwards is None:
            return rows
        # Chunks, of which the first lacks the convolutions' delay and the last what is beyond the end.
        frames, missing = x.shape[1], self.config.waits[-1][1] if self.config.chunk else 0
        size = self.config.chunk or frames
        after = -(frames + missing) % size
        chunks = np.pad(x, ((0, 0), (missing, after), (0, 0))).reshape(-1, size, x.shape[2])
        place = np.arange(-missing, frames + after)
        valid = ((place >= 0) & (place < frames)).astype(np.float32).reshape(-1, size, 1)
        backwards = self._backwards(chunks, valid).reshape(1, -1, rows.shape[2])
        return np.asarray(rows + backwards[:, missing : missing + frames])

    def step(self, batch: SlotBatch, x: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """(B, T, D) of a chunk of each stream, (B, T, 1) 0 or 1 -> (B, T, H)."""
        names = [f"{self.name}.{part}" for part in range(len(self.forwards.widths))]
        before = tuple(batch.kept(name, (width,)) for name, width in zip(names, self.forwards.widths, strict=True))
        rows, state = self.forwards(x, valid, before)
        for name, part in zip(names, state, strict=True):
            batch.keep(name, part)
        return rows if self.backwards is None else rows + self._backwards(x, valid)

    def _backwards(self, x: np.ndarray, valid: np.ndarray) -> np.ndarray:
        assert self.backwards is not None
        return self.backwards(x[:, ::-1], valid[:, ::-1])[0][:, ::-1]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    half = np.float32(0.5)
    return np.asarray(half + half * np.tanh(half * x))


def _rnn_step(term: np.ndarray, recurrent: np.ndarray, h: np.ndarray) -> State:
    return (np.clip(term + recurrent, 0, np.float32(CLIP)),)


def _gru_step(term: np.ndarray, recurrent: np.ndarray, h: np.ndarray) -> State:
    size = h.shape[1]
    r, z = np.split(_sigmoid(term[:, : 2 * size] + recurrent[:, : 2 * size]), 2, axis=1)
    n = np.tanh(term[:, 2 * size :] + r * recurrent[:, 2 * size :])
    return (n + z * (h - n),)


def _lstm_step(term: np.ndarray, recurrent: np.ndarray, h: np.ndarray, c: np.ndarray) -> State:
    i, f, g, o = np.split(term + recurrent, 4, axis=1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


STEPS: dict[Cell, Step] = {"rnn": _rnn_step, "gru": _gru_step, "lstm": _lstm_step}


class NativeBNLSTMStep:
    """A BN-LSTM's step by its population statistics: a scale and a shift for each time step."""

    def __init__(self, hidden: int, layer: LayerWeights):
        self.input_scale, input_shift = _of_steps(layer.under("input_norm"), 4 * hidden)
        self.recurrent_scale, recurrent_shift = _of_steps(layer.under("recurrent_norm"), 4 * hidden)
        self.cell_scale, cell_shift = _of_steps(layer.under("cell_norm"), hidden)
        self.shift = input_shift + recurrent_shift + layer.shaped("bias", 4 * hidden)
        self.cell_shift = cell_shift + layer.shaped("beta", hidden)

    def __call__(
        self, term: np.ndarray, recurrent: np.ndarray, h: np.ndarray, c: np.ndarray, frames: np.ndarray
    ) -> State:
        """`frames`: (B, 1) of each stream before this one."""
        place = np.minimum(frames[:, 0].astype(np.int64), len(self.shift) - 1)
        gates = term * self.input_scale[place] + recurrent * self.recurrent_scale[place] + self.shift[place]
        i, f, g, o = np.split(gates, 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        return _sigmoid(o) * np.tanh(c * self.cell_scale[place] + self.cell_shift[place]), c, frames + np.float32(1)


def _of_steps(norm: LayerWeights, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(steps, size) scale and shift of all steps."""
    scale, shift = norm.scales_and_shifts(size)
    place = np.minimum(np.arange(len(norm["means"])), len(scale) - 1)
    return scale[place], shift[place]
