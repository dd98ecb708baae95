"""Mixed training: synchronous in groups of ranks, whose weights are averaged now and then."""

from typing import Any

import torch.distributed as dist
from torch.autograd.profiler import record_function

from ds2.train.config import ParallelConfig
from ds2.train.distributed.ranks import Ranks
from ds2.train.distributed.strategy import Agreement, load_replica, replica
from ds2.train.distributed.synchronous import Synchronous
from ds2.train.objective import Objective
from ds2.train.update import Updater
from ds2.utils.errors import InputError


class Mixed(Synchronous):
    """Synchronous within groups; their weights are averaged every few updates (post-local SGD, Lin et al. 2020)."""

    def __init__(self, objective: Objective, updater: Updater, ranks: Ranks, config: ParallelConfig):
        if ranks.size % config.group:
            raise InputError(f"parallel.group = {config.group} must divide the {ranks.size} ranks")
        group, self.groups = dist.new_subgroups(config.group)
        self.average_every = config.average_every
        super().__init__(objective, updater, ranks, config, group)

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        counts = self.ranks.gather((utterances, save, stop))
        start = self.ranks.number // self.size * self.size
        total = sum(count for count, _, _ in counts)
        own = sum(count for count, _, _ in counts[start : start + self.size])
        own = max(own, min(total, 1))  # a group without utterances still takes part in the update
        return Agreement(own, counts[0][1], any(stop for _, _, stop in counts))

    def update(self, epoch: int) -> bool:
        good = super().update(epoch)
        if self.updater.step % self.average_every == 0:
            with record_function("ds2: communication"):
                self.ranks.average(self.updater.model)
        return good

    def settle(self) -> None:
        self.ranks.average(self.updater.model)
        if self.updater.average is not None:
            self.ranks.average(self.updater.average)

    def replicas(self) -> list[dict[str, Any]]:
        return self.ranks.gather(replica(self.updater))[:: self.size]

    def load_replicas(self, saved: list[dict[str, Any]]) -> None:
        load_replica(self.updater, saved, self.ranks.number // self.size, self.ranks.size // self.size)
