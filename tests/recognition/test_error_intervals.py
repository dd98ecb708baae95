"""Error rates of groups."""

from pathlib import Path

import pytest

from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts
from ds2.recognition.error_intervals import check_field, errors_by, interval
from ds2.utils.errors import ParameterError

UTTERANCES = [
    Utterance(Path("a.wav"), 1.0, "", speaker="ann", extra={"accent": "irish"}),
    Utterance(Path("b.wav"), 2.0, "", speaker="ann", extra={"accent": "welsh"}),
    Utterance(Path("c.wav"), 30.0, "", speaker="bob"),
]
ERRORS = [ErrorCounts(1, 0, 0, 10), ErrorCounts(0, 2, 1, 10), ErrorCounts(0, 0, 0, 5)]


def test_groups_by_hand() -> None:
    """Ann has four errors in twenty words; who has no accent stands under (none)."""
    found = errors_by("speaker", UTTERANCES, ERRORS)
    assert [(group.name, group.utterances, group.errors.rate) for group in found] == [("ann", 2, 0.2), ("bob", 1, 0.0)]
    names = [group.name for group in errors_by("accent", UTTERANCES, ERRORS)]
    assert names == ["welsh", "irish", "(none)"]
    names = [group.name for group in errors_by("duration", UTTERANCES[::-1], ERRORS[::-1])]
    assert names == ["below 2 s", "2 to 5 s", "from 20 s"]
    with pytest.raises(ParameterError, match="by: no utterance of the manifest has the field age"):
        check_field("age", UTTERANCES)
    with pytest.raises(ParameterError, match="by: text differs from utterance to utterance"):
        check_field("text", UTTERANCES)


def test_the_interval_is_that_of_a_binomial() -> None:
    """400 utterances of one word, a quarter wrong: 0.25 +- 1.96 sqrt(0.25 * 0.75 / 400) is 0.208 to 0.292."""
    low, high = interval([ErrorCounts(1, 0, 0, 1)] * 100 + [ErrorCounts(0, 0, 0, 1)] * 300)
    assert low == pytest.approx(0.208, abs=0.006)
    assert high == pytest.approx(0.292, abs=0.006)
    assert interval([ErrorCounts(1, 0, 0, 4)] * 3) == (0.25, 0.25)
    assert interval([ErrorCounts(0, 0, 0, 30)] * 10) == (0.0, 0.01)  # the rule of three
