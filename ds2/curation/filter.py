"""Which segments to keep: a linear classifier of six features finds wrong transcripts (Deep Speech 2, section 4).

It learns from segments that a person has checked or, without these, from the model's own transcripts. A model too weak
for that judges by the alignment alone: segments whose text costs far more than that of the others are left out.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ds2.curation.classifier import Classifier
from ds2.curation.score import features
from ds2.curation.text_errors import bad_threshold, other_texts, word_counts
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines

OUTPUTS = ("kept.jsonl", "rejected.jsonl", "filter.json", "filter.png")  # of a filtered manifest
FEWEST_CHECKED = 20  # segments needed to learn from
CHECKED, HYPOTHESES, ALIGNMENT = "checked segments", "the model's own transcripts", "the alignment"  # what judges
WEAK = 0.1  # of the words of the median segment differ from the model's transcript: it is too weak to judge texts
FEWEST_OF_A_KIND = 2  # bad ones, and good ones: with fewer nothing can be learnt that another fold confirms
CURVE_POINTS = 200  # at most, of each curve in the report


@dataclass(frozen=True)
class FilterConfig:
    """Which segments are bad, and how many are kept: the best fraction `keep`, or as many as have a WER up to `wer`.

    Without checked segments the WER is unknown: the filter keeps all segments that are more likely good than bad or,
    with a weak model, all that fit as well as most do.
    """

    wer: float = 0.03  # highest WER of the transcripts that are kept, estimated on the checked segments
    keep: float | None = None  # fraction of the segments; None: as many as `wer` allows
    good_wer: float = 0.05  # highest WER of the checked segments that count as good, taken together
    folds: int = 5  # of cross validation: each checked segment is scored by a classifier that has not seen it
    ridge: float = 1e-3  # weight of the squared coefficients beside the mean cross entropy
    seed: int = 1  # of the random folds

    def __post_init__(self) -> None:
        if self.keep is not None and not 0 < self.keep <= 1:
            raise InputError(f"keep = {self.keep} must be above 0 and at most 1")
        if not 0 <= self.wer <= 1:
            raise InputError(f"wer = {self.wer} must be from 0 to 1")


@dataclass(frozen=True)
class FilterReport:
    """The result of training and applying the filter.

    Attributes:
        judged_by: CHECKED, HYPOTHESES or ALIGNMENT.
        examples, bad: how many segments it learnt from, and how many of them are bad. Without checked segments bad is
            what differs from the model's transcript.
        bad_above: a segment is bad when its word errors per word of the truth exceed this.
        threshold: log odds up to which segments are kept.
        kept, kept_seconds: fractions of all segments and of their seconds that are kept.
        wer_before, wer_after: of the examples' transcripts, those of all and those that are kept, against the checked
            texts or the model's transcripts.
        examples_kept, wer_held_out: the fraction of the examples, and the WER of these, that would be kept if each
            were scored by a classifier that has not seen it (cross validation): what to expect of other segments.
        area: under the ROC curve; None without checked segments.
        roc: (false positive rate, true positive rate) pairs, with checked segments. curve: (fraction kept, WER) pairs.
        checked: how many of the segments that are kept a person has checked; they are kept whatever their odds.
    """

    judged_by: str
    examples: int
    bad: int
    bad_above: float
    threshold: float
    kept: float
    kept_seconds: float
    wer_before: float
    wer_after: float
    examples_kept: float
    wer_held_out: float
    area: float | None
    classifier: Classifier
    roc: list[tuple[float, float]]
    curve: list[tuple[float, float]]
    checked: int = 0

    @property
    def by_alignment(self) -> bool:
        """Whether the model was too weak to judge the texts by its own transcripts."""
        return self.judged_by == ALIGNMENT

    @property
    def summary(self) -> str:
        """One line."""
        kept = f"kept {self.kept:.1%} of the segments"
        if self.judged_by == CHECKED:
            share = f"of others it keeps {self.examples_kept:.1%}, whose WER falls from {self.wer_before:.2%}"
            tested = f"by cross-validation on {self.examples} {CHECKED}"
            return f"{kept}, all {self.checked} that were checked; {share} to {self.wer_held_out:.2%}, {tested}"
        if self.by_alignment:
            why = f"since {self.wer_before:.0%} of the words differ from the model's transcripts"
            return f"{kept} by their alignment scores, {why}; a better model judges texts better"
        differ = f"words that differ from the model's transcripts: {self.wer_before:.1%}"
        return f"{kept}; {differ} before, {self.wer_after:.1%} after; the true WER needs {CHECKED}"


def filter_segments(
    scored: Sequence[Utterance], checked: dict[str, str] | None, config: FilterConfig
) -> tuple[list[Utterance], FilterReport]:
    """Filters scored utterances; each gets `odds` (log odds of being bad) and `kept` in its extra.

    Args:
        scored: utterances from `score`.
        checked: the correct text of some, by their `id`; None: the model's hypotheses take its place.

    Raises:
        InputError: too few segments to learn from, or none to keep.
    """
    truths = {each.extra["id"]: each.extra["hypothesis"] for each in scored} if checked is None else checked
    examples = _examples(scored, truths, "segments" if checked is None else "checked segments that are here")
    counts = [word_counts(truths[utterance.extra["id"]], utterance.text) for utterance in examples]
    errors, lengths = torch.tensor(counts, dtype=torch.float64).T
    bad_above, rates = bad_threshold(errors, lengths, config.good_wer), errors / lengths.clamp(min=1)
    bad = rates > bad_above
    judged_by = CHECKED if checked is not None else HYPOTHESES if float(rates.median()) <= WEAK else ALIGNMENT
    by_alignment, inputs = judged_by == ALIGNMENT, _inputs(examples)  # by the alignment every segment is an example
    classifier = Classifier.of_outliers(inputs) if by_alignment else learner(bad, config)(inputs, bad)
    odds = classifier(_inputs(scored))
    example_odds = odds if by_alignment else cross_validated(inputs, bad, config)
    fractions, wers = kept_against_wer(example_odds, errors, lengths)
    threshold = _odds_threshold(odds, example_odds, None if checked is None else wers, config)
    fit = odds <= threshold
    if judged_by == HYPOTHESES and config.keep is None:
        fit &= ~other_texts(scored, truths, errors, rates)
    judged = [_judge(*each) for each in zip(scored, odds.tolist(), fit.tolist(), strict=True)]
    kept = _kept(judged, config)
    points, area = roc(example_odds, bad) if checked is not None else ([], None)
    kept_examples = torch.tensor([each.extra["kept"] for each in judged if each.extra["id"] in truths])
    held_out = example_odds <= threshold
    return judged, FilterReport(
        judged_by=judged_by,
        examples=len(examples),
        bad=int(bad.sum()),
        bad_above=bad_above,
        threshold=threshold,
        kept=len(kept) / len(scored),
        kept_seconds=sum(each.duration for each in kept) / sum(each.duration for each in scored),
        wer_before=_wer(errors, lengths),
        wer_after=_wer(errors[kept_examples], lengths[kept_examples]),
        examples_kept=float(held_out.double().mean()),
        wer_held_out=_wer(errors[held_out], lengths[held_out]),
        area=area,
        classifier=classifier,
        roc=thinned(points),
        curve=thinned(list(zip(fractions.tolist(), wers.tolist(), strict=True))),
    )


def _kept(judged: Sequence[Utterance], config: FilterConfig) -> list[Utterance]:
    """The utterances that are kept.

    Raises:
        InputError: none.
    """
    kept = [utterance for utterance in judged if utterance.extra["kept"]]
    if not kept:
        raise InputError(f"no segment is good enough for wer = {config.wer}: raise it, or give keep, a share of them")
    return kept


def _examples(scored: Sequence[Utterance], truths: dict[str, str], what: str) -> list[Utterance]:
    """The utterances of which there is a truth.

    Raises:
        InputError: too few to learn from; says what they are.
    """
    examples = [utterance for utterance in scored if utterance.extra["id"] in truths]
    if len(examples) < FEWEST_CHECKED:
        raise InputError(f"{len(examples)} {what}: at least {FEWEST_CHECKED} are needed to learn from")
    return examples


def _inputs(utterances: Sequence[Utterance]) -> Tensor:
    """(N, 6) features."""
    return torch.tensor([features(utterance) for utterance in utterances], dtype=torch.float64)


def _wer(errors: Tensor, lengths: Tensor) -> float:
    return float(errors.sum() / lengths.sum().clamp(min=1))


def learner(bad: Tensor, config: FilterConfig) -> Callable[[Tensor, Tensor], Classifier]:
    """What makes a classifier of (N, 6) features and (N,) booleans: it learns, unless nearly all are of one kind."""
    if min(int(bad.sum()), int((~bad).sum())) < FEWEST_OF_A_KIND:
        return Classifier.by_cost
    return partial(Classifier.fit, ridge=config.ridge)


def cross_validated(inputs: Tensor, bad: Tensor, config: FilterConfig) -> Tensor:
    """(N,) log odds of each example, by a classifier that learnt from the other folds; bad ones are in all of them."""
    order = torch.randperm(len(bad), generator=torch.Generator().manual_seed(config.seed))
    fold = torch.empty(len(bad), dtype=torch.long)
    fold[order[bad[order].argsort(stable=True)]] = torch.arange(len(bad)) % config.folds
    learn, odds = learner(bad, config), torch.zeros(len(bad), dtype=torch.float64)
    for number in fold.unique().tolist():
        mine = fold == number
        odds[mine] = learn(inputs[~mine], bad[~mine])(inputs[mine])
    return odds


def kept_against_wer(odds: Tensor, errors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) fractions kept and the WER of what is kept, best segments first."""
    order = odds.argsort()
    fractions = torch.arange(1, len(order) + 1) / len(order)
    return fractions, errors[order].cumsum(0) / lengths[order].cumsum(0).clamp(min=1)


def roc(odds: Tensor, bad: Tensor) -> tuple[list[tuple[float, float]], float]:
    """(N,) log odds, (N,) booleans -> pairs of false and true positive rate, by falling threshold; the area below.

    The area is the probability that a bad example has higher odds than a good one; 0.5 where all are good or all bad.
    """
    order = odds.argsort(descending=True)
    hits, misses = bad[order].cumsum(0), (~bad[order]).cumsum(0)
    if not bad.any() or bad.all():
        return [(0.0, 0.0), (1.0, 1.0)], 0.5
    true, false = hits / hits[-1], misses / misses[-1]
    zero = torch.zeros(1)
    true, false = torch.cat([zero, true]), torch.cat([zero, false])
    return list(zip(false.tolist(), true.tolist(), strict=True)), float(torch.trapezoid(true, false))


def read_checked(path: Path) -> dict[str, str]:
    """Correct texts by id, from JSON Lines of `{"id": ..., "text": ...}`.

    Raises:
        InputError: naming the line.
    """
    checked = {}
    for number, line in numbered_lines(path):
        try:
            row = json.loads(line)
            checked[str(row["id"])] = str(row["text"])
        except (json.JSONDecodeError, TypeError, KeyError) as error:
            raise InputError(f'{path}:{number}: expected {{"id": ..., "text": ...}}, got {line[:60]!r}') from error
    return checked


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most CURVE_POINTS points of a curve, with the first and the last."""
    if len(points) <= CURVE_POINTS:
        return points
    step = (len(points) - 1) / (CURVE_POINTS - 1)
    return [points[round(index * step)] for index in range(CURVE_POINTS)]


def _odds_threshold(everything: Tensor, odds: Tensor, wers: Tensor | None, config: FilterConfig) -> float:
    if config.keep is not None:
        ordered = everything.sort().values
        return float(ordered[max(0, round(config.keep * len(ordered)) - 1)])
    if wers is None:
        return 0.0
    fine = (wers <= config.wer).nonzero().flatten()
    return float(odds.sort().values[fine[-1]]) if len(fine) else float(everything.min()) - 1.0  # keeps nothing


def _judge(utterance: Utterance, odds: float, kept: bool) -> Utterance:
    return replace(utterance, extra=utterance.extra | {"odds": round(odds, 4), "kept": kept})
