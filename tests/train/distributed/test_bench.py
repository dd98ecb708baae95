"""The table of strategies."""

from pathlib import Path

from ds2.train.distributed.bench import FinishedRun, write_scaling


def test_the_table_of_strategies_by_hand(tmp_path: Path) -> None:
    """Two ranks do 1.5 times the work of one: efficiency 75 %; the loss 3 lies half-way through the second epoch."""
    one = [epoch(10.0, 10.0, 4.0), epoch(10.0, 10.0, 2.0)]
    two = [epoch(10.0, 15.0, 5.0), epoch(10.0, 15.0, 3.0)]
    line = [
        [("forward", 0.0, 3.0), ("waiting", 3.0, 4.0)],
        [("forward", 0.0, 3.0), ("communication", 3.0, 3.5), ("update", 3.5, 4.0)],
    ]
    text = write_scaling(
        tmp_path, [FinishedRun("synchronous", 1, one, line[:1]), FinishedRun("local-sgd", 2, two, line)]
    )
    assert "| synchronous | 1 | 10.0 | 1.00 | 100% | 15.0 | 2.00 | 25.00% | 25% | 0% | 1.0 + 20.0, 2.50 |" in text
    assert "| local-sgd | 2 | 15.0 | 1.50 | 75% | 20.0 | 3.00 | 25.00% | 12% | 6% | 1.0 + 20.0, 2.50 |" in text
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")


def epoch(seconds: float, rate: float, loss: float) -> dict:
    costs = {"waiting_seconds_per_minibatch": 0.001, "communication_seconds_per_minibatch": 0.02}
    figures = {"wer": 0.25, "megabytes_per_minibatch": 2.5, **costs}
    return {"seconds": seconds, "utterances_per_second": rate, "dev_loss": loss, **figures}
