"""The policy that Batch Dispatch is compared with, on a simulated clock; and the comparison of the paper."""

from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import import_script
from serve.test_dispatch import Load, filled, streams, work

from ds2.serve.dispatch import Eager


@pytest.fixture(scope="module")
def policies() -> ModuleType:
    return import_script(Path(__file__).parents[2] / "benchmarks" / "wait_to_fill.py")


def test_it_waits_for_a_full_batch_or_its_timeout(policies: ModuleType) -> None:
    dispatcher = filled(policies.WaitToFill(3, timeout=0.05), work(1, 1.0), work(2, 1.01))
    assert dispatcher.take(1.02) == []
    assert dispatcher.wake() == 1.05
    assert streams(dispatcher.take(1.05)) == [1, 2]
    dispatcher = filled(policies.WaitToFill(3, timeout=0.05), *(work(stream, 1.0) for stream in range(1, 5)))
    assert streams(dispatcher.take(1.0)) == [1, 2, 3]


def test_its_configuration_makes_it(policies: ModuleType) -> None:
    config = policies.WaitToFillConfig(batch_streams=8, timeout_seconds=0.1)
    assert config.make() == policies.WaitToFill(8, 0.1)


def test_the_papers_claim_in_simulation(policies: ModuleType) -> None:
    """A step of 3 ms and 0.2 ms for each stream: eager batching holds 200 streams, batches of one stream fall behind
    at 50; with few streams it answers sooner than a policy that waits for a batch to fill."""
    eager = Load(Eager(64), 200, 0.003, 0.0002).waits(5.0)
    assert max(eager) < 0.06
    assert max(Load(Eager(1), 50, 0.003, 0.0002).waits(5.0)) > 1.0
    few = Load(Eager(64), 10, 0.003, 0.0002).waits(5.0)
    filling = Load(policies.WaitToFill(10, 0.05), 10, 0.003, 0.0002).waits(5.0)
    assert 5 * max(few) < max(filling)
