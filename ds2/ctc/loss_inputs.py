"""What the operator `ds2::ctc` takes, on the CPU and on a GPU."""

from typing import NamedTuple

from torch import Tensor


class LossInputs(NamedTuple):
    """A minibatch, and what is wanted of it; the fields are the operator's arguments, in its order."""

    logits: Tensor  # (B, T, V)
    targets: Tensor  # (B, L) padded, or (sum of target_lengths,)
    input_lengths: Tensor  # (B,) frames
    target_lengths: Tensor  # (B,) labels
    weights: Tensor  # (B,) factors of the gradients
    blank: int
    differentiable: bool  # whether gradients are wanted
