"""Viterbi alignment: where in the recording each token of a known transcript is spoken."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ds2.ctc.array_alignment import (
    STAR,
    STAR_COST,
    ArrayAlignment,
    align_arrays,
    along_path,
    check_alignable,
    numbered,
)
from ds2.text import BLANK
from ds2.utils.errors import InputError


@dataclass(frozen=True)
class Alignment:
    """The most probable path that spells the targets.

    Attributes:
        starts, ends: (L,) int64, first frame of each token and one past its last.
        confidences: (L,) float32, mean probability of the token over its frames; NaN for a star.
        log_prob: log-probability of the path, in nats.
    """

    starts: Tensor
    ends: Tensor
    confidences: Tensor
    log_prob: float


def ctc_align(log_probs: Tensor, targets: Tensor, blank: int = BLANK) -> Alignment:
    """Aligns one recording, of seconds or hours (Graves et al. 2006, max in place of sum).

    The path is the same on the CPU and on a GPU. Time grows as T * L; memory little faster than T + L up to some 15
    minutes, and then as T * L / 64 bytes: 85 MB for an hour of 60,000 tokens.

    Args:
        log_probs: (T, V), of any floating-point type, on the CPU or a GPU.
        targets: (L,) tokens without the blank; `STAR` for speech that is not transcribed.

    Raises:
        InputError: the targets need more frames than there are, or one of them has probability 0 wherever it
            could be.
        ValueError: shapes or tokens do not fit, or there is a NaN.
    """
    scores, tokens = log_probs.detach().float().contiguous(), targets.detach().long().cpu().numpy()
    found = _on_gpu(scores, tokens, blank) if scores.is_cuda else align_arrays(scores.cpu().numpy(), tokens, blank)
    starts, ends, confidences = map(torch.from_numpy, found[:3])
    return Alignment(starts, ends, confidences, found.log_prob)


def _on_gpu(scores: Tensor, targets: np.ndarray, blank: int) -> ArrayAlignment:
    """`align_arrays` of (T, V) float32 scores on a GPU."""
    from ds2.ctc.viterbi_cuda import best_path_on_cuda

    check_alignable(scores.shape, targets, blank, bool(scores.isnan().any()))
    frames, outputs = scores.shape
    if (targets == STAR).any():
        scores = torch.cat([scores, scores.max(dim=1, keepdim=True).values - STAR_COST], dim=1)
    labels = numbered(targets, outputs, frames)
    path, log_prob = best_path_on_cuda(scores, labels, blank)
    (spoken,) = np.nonzero(path >= 0)
    columns = labels[path[spoken]].astype(np.int64)
    places = (torch.from_numpy(each).to(scores.device) for each in (spoken, columns))
    return along_path(path, scores[tuple(places)].exp().cpu().numpy(), targets, log_prob)


def frame_labels(logits: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor) -> Tensor:
    """(B, T) int64: the number of the target that each frame belongs to on the most probable path, from 1; 0 in pauses.

    Args:
        logits: (B, T, V); lengths: (B,) frames. targets: (B, L) padded; target_lengths: (B,) labels. An utterance whose
            targets do not fit into its frames is one pause.
    """
    log_probs = logits.detach().float().log_softmax(2).cpu()  # short paths are found sooner there
    labels = torch.zeros(logits.shape[:2], dtype=torch.long)
    for index, (frames, count) in enumerate(zip(lengths.tolist(), target_lengths.tolist(), strict=True)):
        try:
            alignment = ctc_align(log_probs[index, :frames], targets[index, :count])
        except InputError:
            continue
        for number, (start, end) in enumerate(zip(alignment.starts.tolist(), alignment.ends.tolist(), strict=True)):
            labels[index, start:end] = number + 1
    return labels.to(logits.device)
