"""Recurrent layers with recurrent weights in int8, for inference on a CPU: all frames of a batch in one kernel.

    terms W x_t of all frames, one product  -->  h_t = cell(terms_t, U h_{t-1}),  U in int8 (int8_linear.py)

A step for a few utterances is bound by the reading of U, which in int8 stays in a core's cache. All frames share one
reading of W: it is in bfloat16 where the processor has a matrix unit for that, else in float32.
"""

import torch
from torch import Tensor, nn

from ds2.model.acoustic import AcousticModel
from ds2.model.cell_steps import begin_run, fill_state
from ds2.model.cells import CELLS, Cell
from ds2.model.half_linear import half_linear
from ds2.model.recurrent import Direction, RecurrentLayer, State
from ds2.utils.int8_linear import Activations, Int8Weight, in_threads, kernel, most_levels, products, round_rows
from ds2.utils.processor import has_matrix_unit


@kernel
def fill_states(frames, cell, weight, bias, activations, most, first, last):  # type: ignore[no-untyped-def]
    """Fills in the states of the utterances from `first` to `last` - 1, whose Activations are only theirs.

    `cell` is the branch that CELLS names.
    """
    for t in range(len(frames.terms)):
        # U h_t of all utterances at once, from the states rounded to few levels; then the cell of each utterance.
        round_rows(frames.states[t, first:last], most, activations)
        recurrent = frames.recurrent[first:last]
        products(activations, weight, bias, recurrent, 0, recurrent.shape[1])
        for b in range(first, last):
            fill_state(cell, frames, t, b)


def int8_states(
    cell: Cell, terms: Tensor, valid: Tensor, start: State, weight: Int8Weight, bias: Tensor
) -> list[Tensor]:
    """Runs B utterances in `cpu_threads()` threads.

    Args:
        cell: one with a branch in `fill_states`.
        terms: (T, B, G H) W x_t.
        valid: (T, B) boolean: where not, the state after the frame is 0.
        start: the state before the first frame.
        weight: U.
        bias: (G H,).

    Returns:
        (T + 1, B, H) of each part of the state, that before the first frame included.
    """
    branch = CELLS[cell].branch
    assert branch is not None
    frames = begin_run(terms.numpy(), valid.numpy(), tuple(part.numpy() for part in start))
    levels = most_levels(frames.states.shape[2])

    def part_of_batch(first: int, last: int) -> None:
        rounded = Activations.empty(last - first, weight)
        fill_states(frames, branch, weight, bias.detach().numpy(), rounded, levels, first, last)

    in_threads(part_of_batch, terms.shape[1])
    return [torch.from_numpy(store) for store in (frames.states, frames.cells)[: len(start)]]


class Int8Direction(nn.Module):
    """A trained `Direction` with its BN folded in and its recurrent weight in int8."""

    def __init__(self, direction: Direction):
        super().__init__()
        weight, bias = direction.norm(direction.input_weight, None)
        self.weight = weight.detach().to(torch.bfloat16 if has_matrix_unit() else torch.float32)
        self.bias = bias.detach()
        self.recurrent_weight = Int8Weight.of(direction.recurrent_weight.detach().numpy())
        self.recurrent_bias = direction.recurrent_bias.detach()
        self.cell, self.hidden = direction.cell, direction.recurrent_weight.shape[1]

    def start(self, streams: int) -> State:
        """The state before the first frame of so many streams: (B, H) zeros."""
        zeros = self.bias.new_zeros(streams, self.hidden)
        return (zeros,) * len(CELLS[self.cell].state)

    def forward(self, x: Tensor, lengths: Tensor, moments: None) -> Tensor:
        """Like `Direction.forward`: (B, T, D), (B,) -> (B, T, H)."""
        batch, time, _ = x.shape
        rows = x.transpose(0, 1).flatten(0, 1).to(self.weight.dtype)
        terms = half_linear(rows, self.weight, self.bias).unflatten(0, (time, batch))
        valid = torch.ones(time, batch, dtype=torch.bool)
        start = self.start(batch)
        states = int8_states(self.cell, terms, valid, start, self.recurrent_weight, self.recurrent_bias)
        return states[0][1:].transpose(0, 1)


def in_int8(model: AcousticModel) -> AcousticModel:
    """Changes a trained model: its recurrent weights to int8.

    Raises:
        ValueError: it has none, or none that can be; or it is not on a CPU.
    """
    if model.output.weight.device.type != "cpu":
        raise ValueError("int8 is for the CPU; use float32 on a GPU")
    if not model.config.recurrent_layers:
        raise ValueError("int8: torch computes recurrent layers so, and this model has none; try the engine native")
    if model.config.spec.branch is None:
        raise ValueError(f"int8 is for cells with fixed weights; a {model.config.cell} stays in float32")
    for layer in model.recurrent:
        assert isinstance(layer, RecurrentLayer)
        for name in ("forwards", "backwards"):
            direction = getattr(layer, name)
            if direction is not None:
                setattr(layer, name, Int8Direction(direction))
    return model
