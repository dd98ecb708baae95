"""The interface between the trainer and a strategy: how the gradients of several ranks become updates.

Every strategy is used in the same way, minibatch by minibatch:

    agree  ->  backward of every microbatch  ->  update          settle: before a model is validated or saved

synchronous.py, local_sgd.py and asynchronous.py hold them.
"""

from typing import Any, NamedTuple, Protocol

from torch import Tensor

from ds2.data.dataset import Batch
from ds2.train.update import Updater


class Agreement(NamedTuple):
    """The next action of all ranks."""

    utterances: float  # of the coming update
    save: bool  # write a checkpoint after it
    stop: bool  # and end after that checkpoint


class Strategy(Protocol):
    """See the file's head. A replica is the state of one group of ranks whose weights are equal."""

    updater: Updater

    def begin_epoch(self) -> None:
        """Called after parts of the model may have been frozen or released."""
        ...

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        """Tells the others how many utterances this rank has, and whether it wants to save or to stop."""
        ...

    def backward(self, batch: Batch, key: tuple[int, ...], utterances: float, last: bool) -> tuple[Tensor, Tensor]:
        """Adds the gradients of a microbatch of a minibatch of `utterances`; -> (B,) nats, (B,) output frames."""
        ...

    def update(self, epoch: int) -> bool:
        """Updates the weights by the gradients; False where they were bad and the update was skipped."""
        ...

    def settle(self) -> None:
        """Brings the weights of all ranks together."""
        ...

    def replicas(self) -> list[dict[str, Any]]:
        """Returns on every rank the state of all replicas: one, unless weights differ between ranks."""
        ...

    def load_replicas(self, saved: list[dict[str, Any]]) -> None:
        """Takes over the saved state of this rank's replica."""

    def finish(self) -> None:
        """Called after the last epoch."""
        ...


def replica(updater: Updater) -> dict[str, Any]:
    """The state of this rank: weights, optimiser and counters."""
    return {"model": updater.model.state_dict(), **updater.state_dict()}


def load_replica(updater: Updater, saved: list[dict[str, Any]], number: int, groups: int = 1) -> None:
    """Loads the replica of this group; where there were more or fewer groups, the mean of their weights."""
    own = saved[number] if len(saved) == groups else saved[0]
    weights = own["model"]
    if len(saved) != groups:
        weights = {name: sum(other["model"][name] for other in saved) / len(saved) for name in weights}
    updater.model.load_state_dict(weights)
    updater.load_state_dict(own)
