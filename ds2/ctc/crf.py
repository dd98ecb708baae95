"""CTC-CRF: the probability of the labels among all label sequences, weighted by a trigram of labels.

CTC takes frames as independent, given the speech: it never learns which sequences of labels are likely. Here a path has
the weight exp(sum of its frames' logits) p(labels), and the loss is minus the logarithm of the share of the right
labels' paths in all paths (Xiang and Ou 2019, "CRF-based single-stage acoustic modeling with CTC topology", section 3).
It is discriminative training of whole sequences: where speech is scarce it makes fewer errors than CTC.

A state of all paths knows the label before the last one, so an output's weight may depend on it: `biphones`.

The forward and backward recursions over all paths are in probabilities scaled to the sum 1 at every frame. A state is
the last two labels and whether its frame is a blank. On the CPU utterances go one by one through crf_kernels.py, on a
GPU through csrc/crf.cu; where neither will do, a minibatch by matrix products.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from ds2.ctc import crf_kernels
from ds2.ctc.crf_cuda import all_paths_fit, crf_library, run_all_paths
from ds2.ctc.crf_kernels import TINY
from ds2.ctc.label_paths import log_weight_of_labels
from ds2.ctc.loss import ctc_loss
from ds2.ctc.threads import run_in_threads, share_work
from ds2.ctc.trigram import END, Trigram


def ctc_crf_loss(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    trigram: Trigram,
    ctc_weight: float = 0.0,
    biphones: Tensor | None = None,
) -> Tensor:
    """(B, T, V) logits, (B, L) padded targets, (B,), (B,) -> (B,) nats, at least 0; output 0 is the blank.

    `ctc_weight` times the CTC loss of the logits alone is added, without which the peaks may drift (section 3.3 of the
    paper). The loss of an utterance with more labels than its frames can hold is 0, and so is that of one without
    labels.

    Args:
        biphones: (B, T, V - 1, V - 1) to be added to the log-probability of label b + 1 after label a + 1, [a, b]. At
            the beginning of an utterance they are those after label 1, the space.
    """
    log_probs = torch.log_softmax(logits.float(), dim=2)
    ctc = ctc_loss(log_probs, targets, input_lengths, target_lengths, reduction="none", zero_infinity=True)
    prior = trigram.log_probabilities(targets, target_lengths).to(logits.device)
    valid = (ctc > 0) & (target_lengths.to(logits.device) > 0)
    right, scores = -ctc, log_probs
    if biphones is not None:
        scores = log_probs.unsqueeze(2) + nn.functional.pad(torch.cat([biphones[:, :, :1], biphones], dim=2), (1, 0))
        right = log_weight_of_labels(scores, targets, input_lengths, target_lengths)
    return (ctc_weight * ctc - right - prior + log_partition(scores, input_lengths, trigram)) * valid


def log_partition(log_probs: Tensor, lengths: Tensor, trigram: Trigram) -> Tensor:
    """(B, T, V) float32 log weights of frames' outputs, (B,) -> (B,) nats: log of the weight of all paths.

    The weights may be (B, T, V, V), [a, b] of label b after label a, where [0, b] begins the labels and [0, 0] is the
    blank. The gradient with respect to each is the probability that a path has this output at this frame.
    """
    return _LogPartition.apply(log_probs if log_probs.dim() == 4 else log_probs.unsqueeze(2), lengths, trigram)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, log_probs: Tensor, lengths: Tensor, trigram: Trigram) -> Tensor:
        scores, wanted, ctx.done = log_probs.detach(), ctx.needs_input_grad[0], None  # type: ignore[attr-defined]
        if not log_probs.is_cuda:
            totals, ctx.done = _log_partition_on_cpu(scores, lengths, trigram, wanted)  # type: ignore[attr-defined]
            return totals
        if (library := crf_library(scores.device)) is not None and all_paths_fit(library, scores):
            totals, ctx.done = run_all_paths(library, scores, lengths, trigram, wanted)  # type: ignore[attr-defined]
            return totals
        order = lengths.argsort(descending=True, stable=True).to(log_probs.device)
        paths = _Paths(log_probs[order].exp(), lengths.sort(descending=True).values.cpu(), trigram)
        totals = paths.forward()
        ctx.paths, ctx.order = paths, order  # type: ignore[attr-defined]
        return torch.empty_like(totals).index_copy(0, order, totals)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        if ctx.done is not None:  # type: ignore[attr-defined]
            return ctx.done * gradient.view(-1, 1, 1, 1), None, None  # type: ignore[attr-defined]
        posteriors = ctx.paths.posteriors()  # type: ignore[attr-defined]
        unsorted = torch.empty_like(posteriors).index_copy(0, ctx.order, posteriors)  # type: ignore[attr-defined]
        return unsorted * gradient.view(-1, 1, 1, 1), None, None


def _log_partition_on_cpu(
    log_probs: Tensor, lengths: Tensor, trigram: Trigram, differentiable: bool = True
) -> tuple[Tensor, Tensor]:
    """(B, T, 1 or V, V), (B,) -> (B,) log weight of all paths, probabilities of outputs; 0 if not wanted."""
    paths = _Paths(log_probs.exp(), lengths, trigram)
    # The trigram in the order in which each pass reads it, so that its inner loops run along memory.
    tables = crf_kernels.TrigramTables(
        paths.other.transpose(0, 1).contiguous().numpy(),
        paths.other.permute(1, 2, 0).contiguous().numpy(),
        paths.after_blank.contiguous().numpy(),
        paths.end.contiguous().numpy(),
    )
    probabilities, posteriors = paths.probabilities.numpy(), np.zeros(log_probs.shape, np.float32)
    totals = np.zeros(len(log_probs), np.float32)
    frames, outputs = log_probs.shape[1], log_probs.shape[3]

    # A thread uses one set of arrays for all its utterances, one after the other.
    def work(utterances: np.ndarray) -> None:
        columns = np.empty((frames + 1, 2, outputs, outputs), np.float32)
        scratch = np.empty((4, outputs, outputs), np.float32)
        scales = np.empty(frames, np.float32)
        for number in utterances:
            own = probabilities[number], int(lengths[number]), tables, columns, scales, scratch
            ended = crf_kernels.forward(*own)
            totals[number] = np.log(scales[: own[1]].astype(np.float64)).sum() + np.log(ended)
            if differentiable:
                crf_kernels.backward(*own, ended, posteriors[number])

    run_in_threads(work, share_work(lengths.numpy(), torch.get_num_threads()))
    return torch.from_numpy(totals), torch.from_numpy(posteriors)


class _Paths:
    """The states of B utterances, the longest first: those that have a frame t are the first active[t].

    Weights of states are (B, V, V), by the label before the last and the last: `label` where the frame emits the last
    label, `blank` where it emits a blank.
    """

    def __init__(self, probabilities: Tensor, lengths: Tensor, trigram: Trigram):
        table = trigram.table.to(probabilities.device)
        self.probabilities = probabilities  # (B, T, 1 or V, V)
        self.active = [int((lengths > frame).sum()) for frame in range(int(lengths.max()) if len(lengths) else 0)]
        self.end = table[:, :, END]
        self.after_blank = table.diagonal(dim1=1, dim2=2).clone()  # (V, V): p(b | a, b), which needs a blank before it
        self.after_blank[:, END] = 0.0
        self.other = table.clone()  # (V, V, V)
        self.other.diagonal(dim1=1, dim2=2).zero_()
        self.other[:, :, END] = 0.0
        self.scales: list[Tensor] = []  # of each frame: (active,)
        self.columns: list[tuple[Tensor, Tensor]] = []  # label and blank states after each frame

    def forward(self) -> Tensor:
        """(B,) logarithms of the weight of all paths."""
        batch, outputs = len(self.probabilities), self.probabilities.shape[3]
        label, blank = self.probabilities.new_zeros(2, batch, outputs, outputs)
        blank[:, END, END] = 1.0
        last_label, last_blank = label.clone(), blank.clone()
        totals = self.probabilities.new_zeros(batch)
        # Only utterances that still have frames move on. Each frame is scaled to the sum 1; the scales' logarithms are
        # the answer.
        for frame, count in enumerate(self.active):
            label, blank = self._step(self.probabilities[:count, frame], label[:count], blank[:count])
            scale = label.sum((1, 2)) + blank.sum((1, 2))
            for weights in (label, blank):
                torch.nn.functional.threshold(weights.div_(scale.view(-1, 1, 1)), float(TINY), 0.0, inplace=True)
            totals[:count] += scale.log()
            last_label[:count], last_blank[:count] = label, blank
            self.scales.append(scale)
            self.columns.append((label, blank))
        self.ended = ((last_label + last_blank) * self.end).sum((1, 2))
        return totals + self.ended.log()

    def _step(self, emitted: Tensor, label: Tensor, blank: Tensor) -> tuple[Tensor, Tensor]:
        """(A, 1 or V, V) probabilities of a frame's outputs and the states before it -> the states after it."""
        either = label + blank
        entered = torch.bmm(either.permute(2, 0, 1), self.other.transpose(0, 1)).transpose(0, 1)  # (A, V, V)
        entered.diagonal(dim1=1, dim2=2).add_((blank * self.after_blank).sum(1))
        return entered.add_(label).mul_(emitted), either.mul_(emitted[:, :1, :1])

    def posteriors(self) -> Tensor:
        """(B, T, 1 or V, V): the probability of each output at each frame."""
        result = torch.zeros_like(self.probabilities)
        label = (self.end / self.ended.view(-1, 1, 1)).contiguous()  # backward weights: with the forward ones the sum 1
        blank = label.clone()
        # From the last frame to the first: forward times backward weights are the probabilities of the states.
        for frame in range(len(self.active) - 1, -1, -1):
            count = self.active[frame]
            labels, blanks = self.columns[frame]
            found, silent = labels * label[:count], (blanks * blank[:count]).sum((1, 2))
            result[:count, frame] = found if result.shape[2] > 1 else found.sum(1, keepdim=True)
            result[:count, frame, 0, 0] = silent
            emitted = self.probabilities[:count, frame] / self.scales[frame].view(-1, 1, 1)
            label[:count], blank[:count] = self._step_back(emitted, label[:count], blank[:count])
        return result

    def _step_back(self, emitted: Tensor, label: Tensor, blank: Tensor) -> tuple[Tensor, Tensor]:
        """(A, 1 or V, V) scaled probabilities of a frame's outputs, backward weights after it -> those before it."""
        label, blank = label * emitted, blank * emitted[:, :1, :1]
        entered = torch.bmm(label.transpose(0, 1), self.other.permute(1, 2, 0)).permute(1, 2, 0)  # (A, V, V)
        repeated = label.diagonal(dim1=1, dim2=2).unsqueeze(1) * self.after_blank
        return label + blank + entered, blank + entered + repeated
