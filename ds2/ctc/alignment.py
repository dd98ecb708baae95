"""Viterbi alignment: where in the recording each token of a known transcript is spoken."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ds2.text import BLANK
from ds2.utils.errors import InputError

STAR = -1  # a target that stands for speech of any content and length
STAR_COST = 0.5  # nats per frame below the most probable output: high enough that the star does not take known words


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
    from ds2.ctc.band import required
    from ds2.ctc.viterbi_cpu import best_path
    from ds2.ctc.viterbi_cuda import best_path_on_cuda

    scores, tokens = log_probs.detach().float().contiguous(), targets.detach().long().cpu()
    _check_alignable(scores, tokens, blank)
    frames, outputs = scores.shape
    # Untranscribed speech is one more output, a little less probable than the best one of each frame.
    if (tokens == STAR).any():
        scores = torch.cat([scores, scores.max(dim=1, keepdim=True).values - STAR_COST], dim=1)
        tokens = tokens.masked_fill(tokens == STAR, outputs)
    labels = tokens.numpy().astype(np.uint64)
    # Too many tokens are reported before the search, which would only find no path.
    needed = required(labels)
    if needed > frames:
        raise InputError(f"{len(labels)} tokens need at least {needed} frames, the recording has {frames}")
    if scores.is_cuda:
        path, log_prob = best_path_on_cuda(scores, labels, blank)
    else:
        path, log_prob = best_path(scores.cpu().numpy(), labels, blank)
    if log_prob == -math.inf:
        raise InputError("the transcript has probability 0: some token is impossible in every frame that it could take")
    starts, ends, confidences = _label_spans(path, scores, tokens)
    confidences[tokens == outputs] = torch.nan
    return Alignment(starts, ends, confidences, float(log_prob))


def _label_spans(path: np.ndarray, scores: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First frame, one past the last, and mean probability of each token, from the (T,) token index of each frame."""
    spoken = torch.from_numpy(path >= 0)
    indices = torch.from_numpy(path)[spoken]
    frames = torch.arange(len(path))[spoken]
    starts = torch.full((len(tokens),), len(path)).scatter_reduce(0, indices, frames, "amin")
    ends = torch.zeros(len(tokens), dtype=torch.long).scatter_reduce(0, indices, frames + 1, "amax")
    probabilities = scores[frames.to(scores.device), tokens[indices].to(scores.device)].exp().cpu()
    sums = torch.zeros(len(tokens)).index_add(0, indices, probabilities)
    return starts, ends, sums / (ends - starts)


def _check_alignable(log_probs: Tensor, targets: Tensor, blank: int) -> None:
    if log_probs.dim() != 2 or targets.dim() != 1:
        raise ValueError(
            f"log_probs must be (T, V) and targets (L,), got {tuple(log_probs.shape)} and {tuple(targets.shape)}"
        )
    outputs = log_probs.shape[1]
    if not 0 <= blank < outputs:
        raise ValueError(f"blank {blank} must be one of the {outputs} outputs")
    if log_probs.isnan().any():
        raise ValueError("log_probs contain NaN")
    if targets.numel() and bool((targets >= outputs).any() | (targets < STAR).any() | (targets == blank).any()):
        raise ValueError(f"targets must be 0..{outputs - 1} or STAR without the blank {blank}")


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
