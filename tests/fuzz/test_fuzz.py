"""The fuzzer finds what is planted, blames the input that did it, and finds nothing in ds2."""

from pathlib import Path
from random import Random

import pytest
from fuzz import kinds
from fuzz.planted import KINDS
from fuzz.pool import Limits, fuzz, table

NUMBERS = range(5)
PLANTED = {  # kind: what the fuzzer must call its bug
    "traceback": "traceback",
    "hang": "hang",
    "wait": "hang",
    "crash": "crash",
    "memory": "memory",
    "claimed": "traceback",
    "exit": "traceback",
}
QUICK = Limits(processor_seconds=2.0, seconds=4.0, memory=256 << 20)


def bad(kind: str) -> set[int]:
    """The numbers whose inputs have the bug."""
    return {number for number in NUMBERS if KINDS[kind].make(Random(f"{kind} {number}"), []) == {"input": b"\1"}}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_bug_is_found_and_blamed_on_its_input(kind: str, tmp_path: Path) -> None:
    """One process reads bad and good inputs in turn: none is lost, none is blamed for the one before."""
    verdict = fuzz("fuzz.planted", [kind], NUMBERS, tmp_path, processes=1, limits=QUICK)
    assert 0 < len(bad(kind)) < len(NUMBERS)
    assert {finding.number for finding in verdict.findings} == bad(kind)
    assert {finding.outcome for finding in verdict.findings} == {PLANTED[kind]}
    outcomes = verdict.rows[kind].outcomes
    assert outcomes["accepted"] == len(NUMBERS) - len(bad(kind))
    assert outcomes.total() == len(NUMBERS)
    for finding in verdict.findings:
        assert (finding.folder / "input").read_bytes() == b"\1"
        assert (finding.folder / "report.txt").read_text().startswith(PLANTED[kind])


def test_an_input_error_is_no_finding(tmp_path: Path) -> None:
    verdict = fuzz("fuzz.planted", ["refuse"], NUMBERS, tmp_path, processes=1)
    assert verdict.rows["refuse"].outcomes["refused"] == len(bad("refuse")) > 0
    assert verdict.findings == []
    assert list(tmp_path.iterdir()) == []


def test_reports_say_what_went_wrong(tmp_path: Path) -> None:
    kinds = ["traceback", "crash"]
    verdict = fuzz("fuzz.planted", kinds, NUMBERS, tmp_path)
    for finding in verdict.findings:
        assert {"traceback": "KeyError: 'planted'", "crash": "Segmentation fault"}[finding.kind] in finding.report
    counts = [len(bad(kind)) for kind in kinds]
    rows = [line.split() for line in table(verdict).splitlines()]
    assert [row[3:6] for row in rows[1:]] == [
        [str(counts[0]), "0", "0"],
        ["0", "0", str(counts[1])],
        [str(counts[0]), "0", str(counts[1])],
    ]


@pytest.mark.long
@pytest.mark.parametrize("network", [False, True], ids=["files", "network"])
def test_nothing_breaks_ds2(network: bool, tmp_path: Path) -> None:
    """A few inputs of each kind, the same in every run; `make fuzz` reads many more."""
    names = [name for name in kinds.KINDS if name not in kinds.SLOW and (name in kinds.NETWORK) == network]
    limits = Limits(processor_seconds=60, seconds=200)
    verdict = fuzz("fuzz.kinds", names, range(15), tmp_path, processes=1 if network else 2, limits=limits)
    assert [(finding.kind, finding.number, finding.report) for finding in verdict.findings] == []
    for row in verdict.rows.values():
        assert row.outcomes.total() == 15
        assert 0 < row.outcomes["accepted"] < 15
