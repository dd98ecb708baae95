"""Schedules by hand."""

import pytest

from ds2.train.config import OptimizerConfig
from ds2.train.optimizer import learning_rate


def test_sgd_is_annealed_after_each_epoch() -> None:
    config = OptimizerConfig("sgd", 6e-4, annealing=1.2)
    assert learning_rate(config, 0, 100, 0) == learning_rate(config, 9, 100, 0) == 6e-4
    assert learning_rate(config, 10, 100, 2) == pytest.approx(6e-4 / 1.44)


def test_one_cycle_rises_then_falls_to_nothing() -> None:
    config = OptimizerConfig("adamw", 1.0, warmup=0.1)
    rates = [learning_rate(config, step, 100, 0) for step in range(101)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[55] == pytest.approx(0.5)
    assert rates[100] == pytest.approx(0.0)
