"""Error rates of groups of utterances, by speaker, accent, duration and so on, with confidence intervals."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts
from ds2.utils.errors import ParameterError

DURATIONS = (2, 5, 10, 20)  # seconds between the groups by duration
SPANS = [
    f"below {DURATIONS[0]} s",
    *(f"{low} to {high} s" for low, high in pairwise(DURATIONS)),
    f"from {DURATIONS[-1]} s",
]
DRAWS = 1000  # of the bootstrap
NONE = "(none)"  # group of utterances without the field


class GroupErrors(NamedTuple):
    """Errors of the utterances with the same value of a field."""

    name: str
    utterances: int
    errors: ErrorCounts
    interval: tuple[float, float]  # 95 % confidence interval of the error rate


def check_field(field: str, utterances: Sequence[Utterance]) -> None:
    """Checks that utterances can be grouped by a field.

    Raises:
        ParameterError: no utterance has it, or it tells the utterances apart.
    """
    if field in ("text", "audio_filepath", "offset"):
        raise ParameterError("by", f"{field} differs from utterance to utterance; name a field such as speaker")
    if all(_value(utterance, field) == NONE for utterance in utterances):
        raise ParameterError("by", f"no utterance of the manifest has the field {field}")


def errors_by(field: str, utterances: Sequence[Utterance], errors: Sequence[ErrorCounts]) -> list[GroupErrors]:
    """The groups by a field of the manifest: by duration from short to long, otherwise from the highest rate down."""
    groups: dict[str, list[ErrorCounts]] = {}
    for utterance, counts in zip(utterances, errors, strict=True):
        groups.setdefault(_value(utterance, field), []).append(counts)
    found = [GroupErrors(name, len(all_), sum(all_, ErrorCounts()), interval(all_)) for name, all_ in groups.items()]
    if field == "duration":
        return sorted(found, key=lambda group: SPANS.index(group.name))
    return sorted(found, key=lambda group: (-group.errors.rate, group.name))


def interval(errors: Sequence[ErrorCounts]) -> tuple[float, float]:
    """95 % confidence interval of the joint error rate.

    Without an error it goes up to three by the number of words: otherwise an error was to be expected (the rule of
    three, Hanley and Lippman-Hand 1983).
    """
    wrong = np.array([counts.errors for counts in errors])
    length = np.array([counts.reference_length for counts in errors])
    return bootstrap(wrong, length) if wrong.any() else (0.0, min(1.0, 3 / max(1, int(length.sum()))))


def bootstrap(wrong: np.ndarray, length: np.ndarray) -> tuple[float, float]:
    """95 % interval of sum(wrong) / sum(length), both (B,), by drawing utterances anew (Bisani and Ney 2004)."""
    count, random = len(wrong), np.random.default_rng(1)
    rates = np.empty(DRAWS)
    for draw in range(DRAWS):
        drawn = random.integers(count, size=count)
        rates[draw] = wrong[drawn].sum() / max(1, length[drawn].sum())
    low, high = np.percentile(rates, (2.5, 97.5))
    return float(low), float(high)


def _value(utterance: Utterance, field: str) -> str:
    if field == "duration":
        return SPANS[int(np.searchsorted(DURATIONS, utterance.duration, side="right"))]
    known = {"speaker": utterance.speaker, "lang": utterance.lang}
    value = known[field] if field in known else utterance.extra.get(field)
    return NONE if value is None or value == "" else str(value)
