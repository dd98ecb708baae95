"""The paths of CTC that give certain labels, where an output's weight may depend on the label before it.

blanks   ( )---a---( )---b---( )      states: the blank after so many labels, and each label's own frames;
             \\_______/                a label may follow another one at once, if they differ

On the CPU utterances go one by one through label_paths_cpu.py, on a GPU through csrc/crf.cu; where neither will do, all
together through torch's operators.
"""

import ctypes

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from ds2.ctc import label_paths_cpu
from ds2.ctc.crf_cuda import crf_library, run_label_paths
from ds2.ctc.label_paths_cpu import Emissions, PlaceStates
from ds2.ctc.threads import run_in_threads, share_work

NEVER = -1e30  # log weight of a state without a path; finite, so that its gradient is 0 and not NaN


def log_weight_of_labels(scores: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """(B, T, V, V) log weights, (B, L) padded labels, (B,) frames, (B,) labels -> (B,) nats: log of the weight of all
    paths that give the labels, in float32; no less than NEVER where there is none.

    scores: [a, b] of label b after label a; [0, b] begins the labels, [0, 0] is the blank.
    """
    frames, outputs = scores.shape[1:3]
    before = nn.functional.pad(targets, (1, 0))[:, :-1]
    pairs = (before * outputs + targets).unsqueeze(1).expand(-1, frames, -1)
    emitted, silent = scores.flatten(2).gather(2, pairs), scores[..., 0, 0]
    again = nn.functional.pad(targets[:, 1:] == targets[:, :-1], (1, 0), value=True)
    sizes = input_lengths, target_lengths
    library = crf_library(scores.device)
    if scores.is_cuda and library is None:
        return _log_weight(emitted.double(), silent.double(), again, *sizes).float()
    return _LogWeight.apply(emitted, silent, again, *sizes, library)


def _log_weight(
    emitted: Tensor, silent: Tensor, again: Tensor, input_lengths: Tensor, target_lengths: Tensor
) -> Tensor:
    """(B, T, L) log weights of the labels at their places, (B, T) of the blank, (B, L) whether a label needs a blank
    before it, (B,), (B,) -> (B,) nats."""
    batch, frames, places = emitted.shape
    never = emitted.new_full((batch, 1), NEVER)
    label = never.expand(-1, places)
    blank = torch.cat([torch.zeros_like(never), label], dim=1)
    ends = []
    for frame in range(frames):
        entered = torch.cat([never, label[:, :-1]], dim=1).masked_fill(again, NEVER).logaddexp(blank[:, :-1])
        blank = blank.logaddexp(torch.cat([never, label], dim=1)) + silent[:, frame, None]
        label = label.logaddexp(entered) + emitted[:, frame]
        ends.append(blank.logaddexp(torch.cat([never, label], dim=1)))
    last = torch.stack(ends, 1)[torch.arange(batch), (input_lengths - 1).clamp(min=0).to(emitted.device)]
    return last.gather(1, target_lengths.to(emitted.device).unsqueeze(1)).squeeze(1)


class _LogWeight(torch.autograd.Function):
    """`_log_weight` by kernels; its gradients are the states' probabilities."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        emitted: Tensor,
        silent: Tensor,
        again: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        library: ctypes.CDLL | None,
    ) -> Tensor:
        inputs = emitted.detach().float(), silent.detach().float(), again, input_lengths, target_lengths
        wanted = any(ctx.needs_input_grad)  # type: ignore[attr-defined]
        if library is not None:
            totals, *ctx.gradients = run_label_paths(library, *inputs, wanted)  # type: ignore[attr-defined]
        else:
            totals, *ctx.gradients = _log_weight_on_cpu(*inputs, wanted)  # type: ignore[attr-defined]
        return totals

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        of_labels, of_blank = ctx.gradients  # type: ignore[attr-defined]
        return of_labels * gradient.view(-1, 1, 1), of_blank * gradient.view(-1, 1), None, None, None, None


def _log_weight_on_cpu(
    emitted: Tensor, silent: Tensor, again: Tensor, input_lengths: Tensor, target_lengths: Tensor, differentiable: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """`_log_weight` and its gradients, zeros if not wanted; in float64, scaled to the sum 1 at each frame."""
    frames, places = emitted.shape[1:]
    weights, silences = (scores.double().exp_().numpy() for scores in (emitted, silent))
    totals = np.full(len(weights), NEVER, np.float32)
    of_labels, of_blank = np.zeros(emitted.shape, np.float32), np.zeros(silent.shape, np.float32)

    # A thread uses one set of arrays for all its utterances, one after the other.
    def work(utterances: np.ndarray) -> None:
        room = PlaceStates(np.empty((frames + 1, places)), np.empty((frames + 1, places + 1)), np.empty(frames))
        scratch = np.empty((2, places + 1))
        for row in utterances:
            time, count = int(input_lengths[row]), int(target_lengths[row])
            own = Emissions(weights[row, :time, :count], silences[row, :time], again[row, :count].numpy())
            states = PlaceStates(
                room.labels[: time + 1, :count], room.blanks[: time + 1, : count + 1], room.scales[:time]
            )
            if ended := label_paths_cpu.states_of_labels(own, states):
                totals[row] = np.log(states.scales).sum() + np.log(ended)
            if ended and differentiable:
                own_gradients = of_labels[row, :time, :count], of_blank[row, :time]
                label_paths_cpu.posteriors_of_labels(own, states, ended, scratch[:, : count + 1], *own_gradients)

    load = (input_lengths * target_lengths).numpy()
    run_in_threads(work, share_work(load, torch.get_num_threads()))
    return torch.from_numpy(totals), torch.from_numpy(of_labels), torch.from_numpy(of_blank)
