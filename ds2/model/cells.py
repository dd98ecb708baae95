"""The recurrent cells: gates, state, and which operator of ONNX and which branch of our kernels run each.

It imports no torch, because every engine reads it; `cell_kernels.KERNELS` has torch's half of the table. A new cell is
a row of both. Whatever runs a cell looks it up by its name, because two cells may have equally many gates.
"""

from dataclasses import dataclass
from typing import Literal

Cell = Literal["rnn", "gru", "lstm", "bn-lstm", "bn-lstm-e"]

RNN, GRU, LSTM = range(3)  # branches of cell_steps.fill_state


@dataclass(frozen=True)
class OnnxOperator:
    """The operator of ONNX that computes what the cell does."""

    name: str
    gates: tuple[str, ...]  # in its order
    activation: str | None = None  # in place of the operator's own, of what our clip has limited
    linear_before_reset: int | None = None


@dataclass(frozen=True)
class CellSpec:
    """What a cell is made of."""

    gates: tuple[str, ...]  # in the order of the rows of its weights and biases
    state: tuple[str, ...] = ("h",)  # its parts, (B, H) each; h is the output
    onnx: OnnxOperator | None = None  # None: a loop in the graph
    branch: int | None = None  # of cell_steps.fill_state; None: its steps are no kernel's, its weights are in float32
    step_statistics: bool = False  # batch normalisation of every time step by its own, which no weight can absorb
    sequence_input: bool = False  # but that of the input term over whole sequences


CELLS: dict[Cell, CellSpec] = {
    "rnn": CellSpec(
        ("h",),
        onnx=OnnxOperator("RNN", ("h",), activation="Relu"),
        branch=RNN,
    ),
    "gru": CellSpec(
        ("r", "z", "n"),
        onnx=OnnxOperator("GRU", ("z", "r", "n"), linear_before_reset=1),
        branch=GRU,
    ),
    "lstm": CellSpec(
        ("i", "f", "g", "o"),
        state=("h", "c"),
        onnx=OnnxOperator("LSTM", ("i", "o", "f", "g")),
        branch=LSTM,
    ),
    "bn-lstm": CellSpec(("i", "f", "g", "o"), state=("h", "c"), step_statistics=True),
    "bn-lstm-e": CellSpec(("i", "f", "g", "o"), state=("h", "c"), step_statistics=True, sequence_input=True),
}
