"""The table of strategies."""

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.train_toml import small_toml

from ds2.train.distributed.bench import Contender, FinishedRun, bench, contenders, write_scaling

ALONE, LOCAL = Contender("synchronous", 1), Contender("local-sgd", 2, ("group=2",))


def test_the_table_of_strategies_by_hand(tmp_path: Path) -> None:
    """Two ranks do 1.5 times the work of one, and 300 utterances cost them 40 s of processors, 200 the one 20 s.

    So efficiency is 100 / 133.3 = 75 %. The loss 3 lies half-way through the second epoch. Of the 10 s of an epoch a
    rank waits for 50 ms and communicates for 1 s. The last epoch, in which a profiler runs, does not count.
    """
    one = [epoch(10.0, 10.0, 4.0, 10.0), epoch(10.0, 10.0, 2.0, 10.0)]
    two = [epoch(10.0, 15.0, 5.0, 20.0), epoch(10.0, 15.0, 3.0, 20.0)]
    line = [
        [("forward", 0.0, 3.0), ("waiting", 3.0, 4.0)],
        [("forward", 0.0, 3.0), ("communication", 3.0, 3.5), ("update", 3.5, 4.0)],
    ]
    for run in (one, two):
        run[-1] |= {"communication_seconds_per_minibatch": 9.0}
    results = {ALONE: [FinishedRun(1, one, line[:1])], LOCAL: [FinishedRun(2, two, line)]}
    text = write_scaling(tmp_path, results)
    assert (
        "| synchronous | 1 | 10.0 | 1.00 | 100.0 | 100% | 15.0 | 2.00 | 25.00% | 0% | 10% | 1.0 + 20.0, 2.50 |" in text
    )
    row = "| local-sgd, group 2 | 2 | 15.0 | 1.50 | 133.3 | 75% | 20.0 | 3.00 | 25.00% | 0% | 10% | 1.0 + 20.0, 2.50 |"
    assert row in text
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_real_processes_are_compared(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """Each run has its own folder, and the time of all its processors is counted."""
    (tmp_path / "train.toml").write_text(small_toml(spoken_digits(20)))
    plan = list(contenders(["mixed"], [2], [2], [1]))
    results = bench(tmp_path / "train.toml", tmp_path / "runs", plan, [3], ("epochs=1",), "cpu")
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["mixed_2_group2_servers1_seed3", "synchronous_1_seed3"]
    assert all(run.processor_time > 0 for runs in results.values() for run in runs)
    assert "| mixed, group 2, servers 1 | 2 |" in write_scaling(tmp_path, results)


def test_of_several_seeds_mean_and_deviation_are_shown(tmp_path: Path) -> None:
    """A run that never reaches the target leaves none for its strategy."""
    line = [[("forward", 0.0, 3.0), ("update", 3.0, 4.0)]]
    runs = [FinishedRun(1, [epoch(10.0, rate, loss, 10.0)], line) for rate, loss in ((10.0, 2.0), (14.0, 4.0))]
    text = write_scaling(tmp_path, {ALONE: runs}, target=3.0)
    assert "| 12.0 ± 2.8 | 1.00 ± 0.00 | 85.7 ± 20.2 | 100% ± 0% | never | 3.00 ± 1.41 |" in text


def test_groups_and_servers_are_those_of_the_strategies_that_have_them() -> None:
    found = [
        each.title for each in contenders(["synchronous", "local-sgd", "asynchronous", "mixed"], [1, 4], [2], [1, 3])
    ]
    assert found == [
        "synchronous",
        "synchronous",
        "local-sgd, group 2",
        "asynchronous, servers 1",
        "asynchronous, servers 3",
        "mixed, group 2, servers 1",
        "mixed, group 2, servers 3",
    ]


def epoch(seconds: float, rate: float, loss: float, processor: float) -> dict:
    costs = {"waiting_seconds_per_minibatch": 0.001, "communication_seconds_per_minibatch": 0.02}
    figures = {"wer": 0.25, "megabytes_per_minibatch": 2.5, "processor_seconds": processor, "minibatches": 50, **costs}
    return {"seconds": seconds, "utterances_per_second": rate, "dev_loss": loss, **figures}
