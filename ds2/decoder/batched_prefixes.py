"""The prefixes of a batched search: what becomes of those that stay, and the best alignment of each.

For each frame it is kept from which prefix, and from which of its two endings, the best alignment came; from the last
frame to the first these lead through the alignment.
"""

import dataclasses
import math
from typing import NamedTuple

import torch
from torch import Tensor

from ds2.decoder.greedy import collapse
from ds2.decoder.hypothesis import Hypothesis
from ds2.text import BLANK

BY_BLANK, BY_LABEL = 0, 1  # how an alignment ends


class BatchedBeam(NamedTuple):
    """Prefixes, (B, W) each; a slot whose probabilities are 0 is empty. Scores are natural logarithms in float64."""

    blank: Tensor  # sum over all alignments that end in the blank, gains included
    label: Tensor  # sum over all alignments that end in the last label
    gains: Tensor  # what the language model and the bonuses add
    best_blank: Tensor  # score of the best alignment with this ending
    best_label: Tensor
    from_blank: Tensor  # 2 * its prefix one frame ago + its ending there
    from_label: Tensor
    last: Tensor  # last label; BLANK for the empty prefix
    hash: Tensor
    parent: Tensor  # hash of the prefix without the last label
    lm: Tensor  # state of the language model
    node: Tensor  # node of the lexicon


def slot_numbers(column: Tensor) -> Tensor:
    """(B, W) -> (B, W) the number of each slot, 0 to W - 1."""
    return torch.arange(column.shape[1], device=column.device).expand_as(column)


def find_elders(beam: BatchedBeam) -> tuple[Tensor, Tensor]:
    """(B, W) slot of the prefix without the last label, and whether it is in the beam."""
    # Empty slots keep the hashes of prefixes that were dropped, which must match nothing.
    alive = torch.logaddexp(beam.blank, beam.label) > -math.inf
    match = (beam.parent[:, :, None] == beam.hash[:, None]) & alive[:, :, None] & alive[:, None]
    found, elder = match.byte().max(2)  # whether one matches, and which
    return elder, found > 0


def best_before(beam: BatchedBeam, same: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
    """(B, W, ...) score and origin of the best alignment that a label may follow; after a blank if it is the `same`."""
    by_label = ~same & (beam.best_label > beam.best_blank)
    best = torch.where(by_label, beam.best_label, beam.best_blank)
    return best, 2 * slots + torch.where(by_label, BY_LABEL, BY_BLANK)


def stayed(beam: BatchedBeam, blank: Tensor, on: Tensor, elder: Tensor, has_elder: Tensor) -> BatchedBeam:
    """(B, W) the same prefixes after one more frame: a blank, the last label again, or a second way to the prefix."""
    both, slots = torch.logaddexp(beam.blank, beam.label), slot_numbers(beam.blank)
    # Where the prefix without the last label is in the beam, its alignments lead here by that label. If it ends in the
    # same label, only those that end in a blank do: without a blank between them the two labels would be one.
    elders = BatchedBeam(*(column.gather(1, elder) for column in beam))
    same = elders.last == beam.last
    reached = torch.where(same, elders.blank, both.gather(1, elder)) + on + beam.gains - elders.gains
    label = torch.logaddexp(beam.label + on, torch.where(has_elder, reached, -math.inf))
    # The best alignment, beside the sums: the better one of the same two ways, and where it came from.
    best, origin = best_before(elders, same, elder)
    anew, held = torch.where(has_elder, best + on, -math.inf), beam.best_label + on
    best_blank, from_blank = best_before(beam, torch.zeros_like(same), slots)
    return beam._replace(
        blank=both + blank, label=label,
        best_blank=best_blank + blank, from_blank=from_blank,
        best_label=torch.maximum(anew, held), from_label=torch.where(anew > held, origin, 2 * slots + BY_LABEL),
    )  # fmt: skip


def trace(beam: BatchedBeam, steps: list[Tensor], slots: Tensor) -> Tensor:
    """(B, T, N) symbols of the best alignment of each of (B, N) prefixes, from the last frame to the first."""
    # The origin of an alignment is a slot and an ending one frame earlier, whose own origin leads on.
    ending = (beam.best_label > beam.best_blank).gather(1, slots).long()
    path = []
    for from_blank, from_label, last in reversed(steps):
        path.append(torch.where(ending == BY_LABEL, last.gather(1, slots), BLANK))
        origin = torch.where(ending == BY_LABEL, from_label.gather(1, slots), from_blank.gather(1, slots))
        slots, ending = (origin >> 1).long(), origin & 1
    return torch.stack(path[::-1], 1).long() if path else slots[:, None][:, :0]


def make_hypotheses(
    paths: list[list[int]], peaks: list[list[float]], scores: list[float], gains: list[float], count: int, hot: bool
) -> list[Hypothesis]:
    """The hypotheses of an utterance of `count` frames, by their paths; without those that are impossible."""
    return [
        dataclasses.replace(collapse(path[:count], peak[:count]), score=score, gains=gain, hot=hot)
        for path, peak, score, gain in zip(paths, peaks, scores, gains, strict=True)
        if score > -math.inf
    ]
