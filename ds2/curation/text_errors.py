"""How much the texts of segments differ from what is said there."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from ds2.data.utterance import Utterance
from ds2.metrics import Edit, align_texts
from ds2.text import normalize, split_words

SURELY_BAD = 1 / 3  # of the words: such a segment is not good, however good all others are
LONGEST_GAP = 5  # words in a row that a text lacks, or has beside what is said: no model misses so many by chance


def word_counts(truth: str, text: str) -> tuple[int, int]:
    """Word errors of a text, and the words of the truth."""
    edits = _edits(truth, text)
    return sum(edit.kind != "equal" for edit in edits), sum(edit.reference is not None for edit in edits)


def word_gap(truth: str, text: str) -> int:
    """The most words in a row that one of two texts lacks."""
    kinds = itertools.groupby(edit.kind for edit in _edits(truth, text))
    return max((len(list(each)) for kind, each in kinds if kind in ("insert", "delete")), default=0)


def _edits(truth: str, text: str) -> list[Edit]:
    return align_texts(split_words(normalize(truth)), split_words(normalize(text)))


def other_texts(scored: Sequence[Utterance], truths: dict[str, str], errors: Tensor, rates: Tensor) -> Tensor:
    """(N,) whether a text is surely not what a good model hears, however well the parts that it has may fit.

    Args:
        truths: what it hears, by `id`.
        errors, rates: (N,) word errors, and those per word. Fewer than LONGEST_GAP may be the model's own.
    """
    found = [
        count >= LONGEST_GAP and (rate >= SURELY_BAD or word_gap(truths[each.extra["id"]], each.text) >= LONGEST_GAP)
        for each, count, rate in zip(scored, errors.tolist(), rates.tolist(), strict=True)
    ]
    return torch.tensor(found)


def bad_threshold(errors: Tensor, lengths: Tensor, good_wer: float) -> float:
    """(N,) word errors, (N,) words -> the largest rate up to which all segments together have a WER of `good_wer`.

    The median error rate where even the best segments have more. Otherwise at most SURELY_BAD, as a few segments that
    are all wrong would pass among many faultless ones.
    """
    rates = errors / lengths.clamp(min=1)
    order = rates.argsort()
    fine = errors[order].cumsum(0) <= good_wer * lengths[order].cumsum(0)
    last_of_rate = torch.cat([rates[order].diff() > 0, torch.tensor([True])])
    usable = (fine & last_of_rate).nonzero().flatten()
    if not len(usable):
        return float(rates.median())
    return min(float(rates[order][usable[-1]]), max(SURELY_BAD, good_wer))
