"""A trigram of labels as a dense table: which sequences of labels `ds2.ctc.crf` compares the right one with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

END = 0  # in place of the blank, which is no label: begins and ends a sequence
LARGEST = 256  # outputs: the table holds their cube


@dataclass(frozen=True)
class Trigram:
    """p(label | the two labels before it).

    Attributes:
        table: (V, V, V) float32: [a, b, c] is p(c | a, b); index 0 is the beginning in a and b, the end in c.
    """

    table: Tensor

    @classmethod
    def from_labels(
        cls, sequences: Iterable[Sequence[int]], outputs: int, follows: np.ndarray | None = None
    ) -> "Trigram":
        """Interpolated Witten-Bell estimates (Witten and Bell 1991, method C) from sequences of labels 1..outputs - 1.

        Args:
            follows: (V, V) whether label b may follow label a, [a, b], with the beginning and the end in place of label
                0; by default any may. What may not has the probability 0.

        Raises:
            ValueError: more than 256 outputs.
        """
        if outputs > LARGEST:
            raise ValueError(f"a dense trigram of at most {LARGEST} outputs, got {outputs}")
        counts = np.zeros((outputs,) * 3)
        for labels in sequences:
            row = np.array([END, END, *labels, END])
            np.add.at(counts, (row[:-2], row[1:-1], row[2:]), 1)
        probabilities = np.full(outputs, 1 / outputs)
        probabilities = _witten_bell(counts.sum((0, 1)), probabilities)
        if follows is not None:
            probabilities = np.where(follows, probabilities, 0.0)
            probabilities /= probabilities.sum(1, keepdims=True)
        for order in (counts.sum(0), counts):
            probabilities = _witten_bell(order, probabilities)
        if follows is not None:
            probabilities *= _reached(follows)[:, :, None]
        return cls(torch.from_numpy(probabilities).float())

    def log_probabilities(self, targets: Tensor, lengths: Tensor) -> Tensor:
        """(B, L) padded labels, (B,) -> (B,) nats: log p of each sequence, its end included."""
        places = torch.arange(targets.shape[1] + 1, device=targets.device)
        inside = places < lengths.unsqueeze(1)
        labels = torch.nn.functional.pad(targets, (0, 1)).where(inside, END)
        before = torch.nn.functional.pad(labels, (2, 0))
        scores = self.table.to(targets.device)[before[:, :-2], before[:, 1:-1], labels].log()
        return scores.where(places <= lengths.unsqueeze(1), 0.0).sum(1)


def _reached(follows: np.ndarray) -> np.ndarray:
    """(V, V) the pairs of labels that may be the last two; both are 0 at the beginning."""
    reached = follows.copy()
    reached[:, END] = False  # nothing goes on after the end
    reached[END, END] = True
    return reached


def _witten_bell(counts: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """(..., V) counts and the estimates of the order below (..., V) without the first history -> estimates (..., V)."""
    kinds = (counts > 0).sum(-1, keepdims=True)
    total = counts.sum(-1, keepdims=True) + kinds
    return np.where(total > 0, (counts + kinds * lower) / np.maximum(total, 1), lower)
