"""The learning-rate range test (Smith 2017): the rate grows with every minibatch until the loss runs away.

Losses are compared per output frame: those of whole utterances differ more between short and long minibatches than
between good and bad rates.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ds2.data.dataset import Batch
from ds2.train.data import Loader, ending_workers, minibatches
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError, ParameterError

LOWEST, HIGHEST = 1e-6, 1.0
FEWEST = 20  # minibatches: about three rates in each factor of ten
SMOOTHING = 0.9
RUNAWAY = 2.0  # times the lowest smoothed loss: there the test ends
FALL = 0.9  # times the first loss: the lowest must be below it
MARGIN = 10.0  # the suggestion is this many times below the rate with the lowest loss


@dataclass(frozen=True)
class RateTest:
    """The loss at each rate, and the suggested rate."""

    rates: list[float]
    losses: list[float]  # smoothed, nats per output frame
    suggestion: float


def find_rate(trainer: Trainer, batches: int) -> RateTest:
    """Trains `batches` minibatches of random lengths at rates from `LOWEST` to `HIGHEST`; this ruins the model.

    Raises:
        InputError: no utterance can be read, or the loss falls at no rate.
    """
    trainer.model.train()
    trainer.strategy.begin_epoch()
    rates: list[float] = []
    losses: list[float] = []
    mean = 0.0
    with ending_workers(trainer.data.train_loader()) as loader:
        for number, minibatch in enumerate(itertools.islice(endless(trainer, loader), batches)):
            if not any(batch.utterances for batch in minibatch):
                continue  # no file of it can be read
            # The rate grows by the same factor each time. The loss of one minibatch is noisy: a running mean is kept,
            # without its bias towards 0.
            rate = LOWEST * (HIGHEST / LOWEST) ** (number / max(1, batches - 1))
            loss = loss_at(trainer, minibatch, rate)
            mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
            rates.append(rate)
            losses.append(mean / (1 - SMOOTHING ** len(rates)))
            if not losses[-1] < RUNAWAY * min(losses):
                break
    if not rates:
        raise InputError(f"{trainer.config.data.train[0]}: none of the utterances tried can be read")
    # The rate with the lowest loss is near the one that diverges, hence the margin below it.
    finite = [loss if math.isfinite(loss) else math.inf for loss in losses]
    lowest = min(finite)
    if not lowest < FALL * finite[0]:
        raise ParameterError(
            "batches",
            f"the loss fell at none of {len(rates)} rates, from {finite[0]:.2f} to {lowest:.2f} nats per frame: test "
            f"more than {batches} minibatches, or check that the texts match the recordings",
        )
    return RateTest(rates, losses, rates[finite.index(lowest)] / MARGIN)


def endless(trainer: Trainer, loader: Loader) -> Iterator[list[Batch]]:
    """Minibatches of epoch after epoch, in random order."""
    for epoch in itertools.count(1):
        trainer.data.sampler.begin(epoch)
        yield from minibatches(loader, trainer.config.accumulate)


def loss_at(trainer: Trainer, minibatch: list[Batch], rate: float) -> float:
    """Mean loss of a minibatch in nats per output frame; then updates the weights at the rate."""
    utterances = sum(len(batch.utterances) for batch in minibatch)
    updater, total, frames = trainer.strategy.updater, 0.0, 0
    for number, batch in enumerate(minibatch):
        losses, lengths = trainer.strategy.backward(batch, (trainer.config.seed, 0, number), utterances, True)
        total, frames = total + float(losses.sum()), frames + int(lengths.sum())
    updater.fixed_rate = rate
    trainer.strategy.update(0)
    return total / max(1, frames)
