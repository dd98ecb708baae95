"""The learning-rate range test (Smith 2017): the rate grows with every minibatch until the loss runs away."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ds2.data.dataset import Batch
from ds2.train.data import Loader, ending_workers
from ds2.train.trainer import Trainer, minibatches
from ds2.utils.errors import InputError

LOWEST, HIGHEST = 1e-6, 1.0
FEWEST = 20  # minibatches: fewer rates than three in a decade tell nothing
SMOOTHING = 0.9
RUNAWAY = 2.0  # times the lowest smoothed loss
MARGIN = 10.0  # the suggestion is that much below the rate at which the loss is lowest


@dataclass(frozen=True)
class RateTest:
    """What each rate did, and the rate to begin with."""

    rates: list[float]
    losses: list[float]  # smoothed, nats per utterance
    suggestion: float


def find_rate(trainer: Trainer, batches: int) -> RateTest:
    """Trains `batches` minibatches of random lengths at rates from `LOWEST` to `HIGHEST`; the model is spoilt by it.

    Raises:
        InputError: nothing of them can be read.
    """
    trainer.model.train()
    trainer.strategy.begin_epoch()
    rates: list[float] = []
    losses: list[float] = []
    mean = 0.0
    with ending_workers(trainer.data.train_loader()) as loader:
        for minibatch in itertools.islice(endless(trainer, loader), batches):
            if not any(batch.utterances for batch in minibatch):
                continue  # nothing of it can be read
            rate = LOWEST * (HIGHEST / LOWEST) ** (len(rates) / max(1, batches - 1))
            loss = loss_at(trainer, minibatch, rate)
            mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
            rates.append(rate)
            losses.append(mean / (1 - SMOOTHING ** len(rates)))
            if not losses[-1] < RUNAWAY * min(losses):
                break
    if not rates:
        raise InputError(f"{trainer.config.data.train[0]}: none of the utterances tried can be read")
    finite = [loss if math.isfinite(loss) else math.inf for loss in losses]
    return RateTest(rates, losses, rates[finite.index(min(finite))] / MARGIN)


def endless(trainer: Trainer, loader: Loader) -> Iterator[list[Batch]]:
    """Minibatches of epoch after epoch, in random order."""
    for epoch in itertools.count(1):
        trainer.data.sampler.begin(epoch)
        yield from minibatches(loader, trainer.config.accumulate)


def loss_at(trainer: Trainer, minibatch: list[Batch], rate: float) -> float:
    """Mean loss of a minibatch, upon which the weights are updated at the rate."""
    utterances = sum(len(batch.utterances) for batch in minibatch)
    updater, total = trainer.strategy.updater, 0.0
    for number, batch in enumerate(minibatch):
        losses, _ = trainer.strategy.backward(batch, (trainer.config.seed, 0, number), utterances, True)
        total += float(losses.sum())
    updater.fixed_rate = rate
    trainer.strategy.update(0)
    return total / utterances
