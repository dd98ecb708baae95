"""Synchronous training by a parameter server that does not wait for the slowest ranks (Chen et al. 2016; ICCS 2017).

    gradients of a step, the first N - backups that arrive -> mean -> update -> weights of the next step
    a gradient that arrives later is left out           -> its rank gets these weights, and skips to that step

With no backups the server waits for all ranks, and the weights are those of synchronous training.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ds2.train.config import ParallelConfig
from ds2.train.distributed.asynchronous import Asynchronous
from ds2.train.distributed.parameter_server import HEAD, TICK, UPDATE, ParameterServer
from ds2.train.distributed.ranks import Ranks
from ds2.train.distributed.strategy import Agreement
from ds2.train.objective import Objective
from ds2.train.update import Updater
from ds2.utils.errors import InputError

logger = logging.getLogger(__name__)


@dataclass
class Arrivals:
    """What has arrived of one update."""

    changes: Tensor | float = 0.0  # the sum over ranks of (P + Q,) gradients and changes, times the rank's utterances
    utterances: float = 0.0
    ranks: int = 0
    good: bool | None = None  # whether the gradient was finite; None: the update has not been made


class BackupServer(ParameterServer):
    """The only server: collects the gradients of a step, whose number is the clock of the ranks that work on it."""

    def __init__(self, updater: Updater, ranks: Ranks, leaders: Sequence[int], own: range, needed: int):
        """`needed`: gradients that make an update."""
        super().__init__(updater, ranks, leaders, own, staleness=0)
        self.needed = needed
        self.step, self.collected = 0, Arrivals()
        self.arrived = self.left_out = 0  # gradients

    def answer(self, leader: int, message: Tensor) -> Tensor:
        """(HEAD + P + Q,) message -> answer, like any server's. But the last number of a message's head is the rank's
        utterances, and that of an answer's the step that comes next."""
        kind, epoch, stop = message[: HEAD - 1].int().tolist()
        good = True
        with self.changed:
            if stop:
                self.meet(stop=True)
            if kind in (UPDATE, TICK):
                good = self._take(leader, epoch, message) if self.clocks[leader] == self.step else self._leave_out()
                self.clocks[leader] = self.step
            return self.packed(good, self.step)

    def begin(self, clock: int) -> None:
        """Continues with the step of this number."""
        with self.changed:
            super().begin(clock)
            self.step, self.collected = clock, Arrivals()

    def finish(self) -> None:
        """Waits for the last message of every rank, and logs how many gradients came too late."""
        super().finish()
        logger.info("backup workers: %d of %d gradients came too late", self.left_out, self.arrived + self.left_out)

    def _take(self, leader: int, epoch: int, message: Tensor) -> bool:
        """Adds a gradient to its step, makes the update with the last one that it needs, or waits for that."""
        step, utterances = self.collected, float(message[HEAD - 1])
        self.arrived += 1
        step.changes = step.changes + utterances * message[HEAD:]
        step.utterances += utterances
        step.ranks += 1
        if step.ranks == self.needed:
            step.good = self._update(epoch, step)
            self.step, self.collected = self.step + 1, Arrivals()
            self.changed.notify_all()
        self.changed.wait_for(lambda: self.failure or step.good is not None)
        if self.failure:
            raise self.failure
        return bool(step.good)

    def _update(self, epoch: int, step: Arrivals) -> bool:
        if not step.utterances:
            return True
        assert isinstance(step.changes, Tensor)
        return self.apply(epoch, None, step.changes / step.utterances)

    def _leave_out(self) -> bool:
        self.left_out += 1
        return True


class BackupWorkers(Asynchronous):
    """The strategy of one rank, see the file's head; the server is a thread of the first one."""

    def __init__(self, objective: Objective, updater: Updater, ranks: Ranks, config: ParallelConfig):
        if config.backups >= ranks.size - config.dedicated_ranks:
            raise InputError(f"parallel.backups = {config.backups}: there are only {ranks.size} ranks")
        self.utterances = 0
        super().__init__(objective, updater, ranks, config)

    def make_server(self, leaders: Sequence[int], own: range, config: ParallelConfig) -> ParameterServer:
        """The server that counts the gradients of a step."""
        return BackupServer(self.updater, self.everyone, leaders, own, len(leaders) - config.backups)

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        """A rank that came too late gives its minibatches up to that of the others."""
        agreement = super().agree(utterances, save, stop)
        self.utterances = utterances
        if self.clock < self.step:
            self.clock += 1
            return agreement._replace(utterances=0)
        return agreement

    def last_of_head(self, gradients: Sequence[Tensor]) -> float:
        """Gradients of (P,) weights in all -> the utterances that they are the mean of."""
        return float(self.utterances)
