"""The paths of CTC that give the labels, where an output's weight depends on the label before it.

blanks   ( )---a---( )---b---( )      states: the blank after so many labels, and each label's own frames;
             \\_______/                a label may follow another one at once, if they differ
"""

import torch
from torch import Tensor

NEVER = -1e30  # log weight of a state without a path; finite, so that its gradient is 0 and not NaN


def log_weight_of_labels(scores: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """(B, T, V, V) log weights, (B, L) padded labels, (B,) frames, (B,) labels -> (B,) nats: log of the weight of all
    paths that give the labels, in float32; no less than NEVER where there is none.

    scores: [a, b] of label b after label a; [0, b] begins the labels, [0, 0] is the blank.
    """
    batch, frames, outputs = scores.shape[:3]
    before = torch.nn.functional.pad(targets, (1, 0))[:, :-1]
    pairs = (before * outputs + targets).unsqueeze(1).expand(-1, frames, -1)
    emitted = scores.flatten(2).gather(2, pairs).double()  # (B, T, L)
    silent = scores[..., 0, 0].double()
    # A label follows the one before it at once, or after a blank; after an equal one it needs the blank.
    again = torch.nn.functional.pad(targets[:, 1:] == targets[:, :-1], (1, 0), value=True)
    never = emitted.new_full((batch, 1), NEVER)
    label = never.expand(-1, targets.shape[1])
    blank = torch.cat([torch.zeros_like(never), label], dim=1)
    ends = []
    for frame in range(frames):
        entered = torch.cat([never, label[:, :-1]], dim=1).masked_fill(again, NEVER).logaddexp(blank[:, :-1])
        blank = blank.logaddexp(torch.cat([never, label], dim=1)) + silent[:, frame, None]
        label = label.logaddexp(entered) + emitted[:, frame]
        ends.append(blank.logaddexp(torch.cat([never, label], dim=1)))
    last = torch.stack(ends, 1)[torch.arange(batch), (input_lengths - 1).clamp(min=0).to(scores.device)]
    return last.gather(1, target_lengths.to(scores.device).unsqueeze(1)).squeeze(1).float()
