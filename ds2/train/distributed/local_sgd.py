"""Local SGD: synchronous in groups of ranks, whose weights are averaged every few updates."""

from typing import Any

from ds2.train.config import ParallelConfig
from ds2.train.distributed.ranks import Ranks
from ds2.train.distributed.strategy import Agreement, load_replica, replica
from ds2.train.distributed.synchronous import Synchronous
from ds2.train.objective import Objective
from ds2.train.update import Updater


class LocalSGD(Synchronous):
    """Synchronous within groups; their weights are averaged every few updates (post-local SGD, Lin et al. 2020)."""

    def __init__(self, objective: Objective, updater: Updater, ranks: Ranks, config: ParallelConfig):
        super().__init__(objective, updater, ranks.subgroup(config.group), config)
        self.everyone = ranks
        self.average_every = config.average_every

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        """The group's utterances in this minibatch, and whether all save or stop."""
        counts = self.everyone.gather((utterances, save, stop))
        total = sum(count for count, _, _ in counts)
        own = sum(count for count, _, _ in counts[self.ranks.start : self.ranks.start + self.ranks.size])
        own = max(own, min(total, 1))  # a group without utterances still takes part in the update
        return Agreement(own, counts[0][1], any(stop for _, _, stop in counts))

    def update(self, epoch: int) -> bool:
        """Updates the weights of the group; every `average_every` updates averages those of all groups."""
        good = super().update(epoch)
        if self.updater.step % self.average_every == 0:
            with self.ranks.pause("communication"):
                self.everyone.average(self.updater.model)
        return good

    def settle(self) -> None:
        """Averages the weights of all groups."""
        self.everyone.average(self.updater.model)
        if self.updater.average is not None:
            self.everyone.average(self.updater.average)

    def replicas(self) -> list[dict[str, Any]]:
        """The state of each group."""
        return self.everyone.gather(replica(self.updater))[:: self.ranks.size]

    def load_replicas(self, saved: list[dict[str, Any]]) -> None:
        """Takes over the saved state of this group."""
        groups = self.everyone.size // self.ranks.size
        load_replica(self.updater, saved, self.everyone.number // self.ranks.size, groups)
