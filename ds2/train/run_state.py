"""The state of a run: epochs, minibatches and updates done, and the figures of every epoch."""

import dataclasses
import math
from dataclasses import dataclass, field

import torch

from ds2.train.distributed.ranks import Costs
from ds2.train.metrics import Epoch


@dataclass
class RunState:
    """Saved in every checkpoint. Sums over an epoch are those of this rank until they are joined."""

    epoch: int = 0
    batch: int = 0  # minibatches done in this epoch
    step: int = 0  # updates done in all
    loss_sum: float = 0.0  # nats, over the utterances of this epoch
    utterances: int = 0  # done in this epoch
    seconds: float = 0.0  # spent in this epoch
    processor: float = 0.0  # seconds of the processor in this epoch, of all ranks together, without loader workers
    sent: int = 0  # bytes handed over to other ranks in this epoch
    waiting: float = 0.0  # seconds in which a rank waited for others in this epoch, of all ranks together
    communication: float = 0.0  # seconds of exchanges in this epoch, of all ranks together
    skipped: list[str] = field(default_factory=list)  # a line for each utterance skipped in this epoch
    history: list[Epoch] = field(default_factory=list)
    best: tuple[float, float] = (math.inf, math.inf)  # `selection_error` of the best model
    best_epoch: int = 0  # epochs done when it was saved

    def add_time(self, seconds: float, processor: float) -> None:
        """Adds what a minibatch has taken of the clock and of the processor."""
        self.seconds += seconds
        self.processor += processor

    def add_costs(self, costs: Costs) -> None:
        """Adds what this rank has spent for others."""
        self.sent += costs.sent
        self.waiting += costs.waiting
        self.communication += costs.communication

    def joined(self, parts: "list[RunState]") -> "RunState":
        """Returns the state with the sums of all ranks."""
        return dataclasses.replace(
            self,
            loss_sum=sum(part.loss_sum for part in parts),
            utterances=sum(part.utterances for part in parts),
            processor=sum(part.processor for part in parts),
            sent=sum(part.sent for part in parts),
            waiting=sum(part.waiting for part in parts),
            communication=sum(part.communication for part in parts),
            skipped=[line for part in parts for line in part.skipped],
        )

    def forget(self) -> None:
        """Clears the sums of this epoch: after a resumption the first rank has those of all."""
        self.loss_sum, self.utterances, self.processor, self.skipped = 0.0, 0, 0.0, []
        self.sent, self.waiting, self.communication = Costs()

    def next_epoch(self) -> "RunState":
        """The state at the start of the next epoch."""
        state = dataclasses.replace(self, epoch=self.epoch + 1, batch=0, seconds=0.0)
        state.forget()
        return state

    def record(self, validation: dict[str, float], rate: float, ranks: int) -> Epoch:
        """The figures of this epoch, as metrics.jsonl holds them."""
        minibatches = max(1, self.batch)
        return {
            "epoch": self.epoch + 1,
            "step": self.step,
            "loss": self.loss_sum / max(1, self.utterances),
            **validation,
            "learning_rate": rate,
            "seconds": round(self.seconds, 2),
            "utterances_per_second": round(self.utterances / max(self.seconds, 1e-9), 1),
            "processor_seconds": round(self.processor, 3),
            "minibatches": self.batch,
            "megabytes_per_minibatch": round(self.sent / 1e6 / minibatches, 3),
            "waiting_seconds_per_minibatch": round(self.waiting / ranks / minibatches, 5),
            "communication_seconds_per_minibatch": round(self.communication / ranks / minibatches, 5),
            "skipped": len(self.skipped),
        }


def random_state() -> dict[str, torch.Tensor]:
    """The states of torch's generators, on the CPU and on the GPU where it is used."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_random_state(state: dict[str, torch.Tensor]) -> None:
    """Sets torch's generators to states of `random_state`."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
