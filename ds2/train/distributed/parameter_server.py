"""A parameter server: holds a part of the weights and applies the gradients of all groups when they arrive.

    group 0, leader --- gradient of part i --> server i, one thread for each leader:
    group 1, leader <-- weights of part i ---- apply -> wait while that group is too far ahead -> newest weights

A group waits only while it is more than `staleness` updates ahead of the slowest (stale synchronous parallel,
Ho et al. 2013). The price: its gradient belongs to weights that others have updated since.
"""

import threading
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from ds2.train.distributed.ranks import Ranks
from ds2.train.optimizer import parts_of
from ds2.train.update import Updater

# Kinds of message: a gradient; no gradient, but the clock advances; a request for the weights; the last message.
UPDATE, TICK, FETCH, END = range(4)
# Numbers before the tensors: of a message kind, epoch, wish to stop, norm; of an answer good, meet at, stop, 0. Backup
# workers have other last ones.
HEAD = 4
FAILED = -1.0  # in place of good
QUESTION, ANSWER = 0, 1  # tags: a rank may be leader and server, and both talk to the same rank


def concatenated(tensors: Sequence[Tensor]) -> Tensor:
    """(N,) on the CPU: the elements of all tensors."""
    return torch.cat([torch.empty(0), *(tensor.detach().flatten().cpu() for tensor in tensors)])


def buffers(model: torch.nn.Module) -> list[Tensor]:
    """The statistics of batch normalisation."""
    return [buffer for buffer in model.buffers() if buffer.is_floating_point()]


def divide(model: torch.nn.Module, servers: int) -> list[range]:
    """The parameters of each server: consecutive, whole, and of about as many weights as those of the others."""
    sizes = torch.tensor([parameter.numel() for parameter in model.parameters()])
    middles = sizes.cumsum(0) - sizes / 2
    owners = (middles * servers / sizes.sum()).int()
    ends = [int((owners <= server).sum()) for server in range(servers)]
    return [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]


class ParameterServer:
    """Its weights, and how many updates each group has made (its clock).

    The updater's model is whole, but only the server's part is kept up to date and has a state of the optimiser.
    The first server also holds the statistics of batch normalisation.
    """

    def __init__(self, updater: Updater, ranks: Ranks, leaders: Sequence[int], own: range, staleness: int):
        self.updater = updater
        self.ranks = ranks
        self.leaders = leaders
        self.staleness = staleness
        parameters = list(updater.model.parameters())
        self.parameters = parameters[own.start : own.stop]
        self.others = parameters[: own.start] + parameters[own.stop :]
        self.statistics = buffers(updater.model) if ranks.first else []
        self.clocks = dict.fromkeys(leaders, 0)
        self.meet_at = 0  # clock at which all ranks meet for a checkpoint; 0: none
        self.stop = False  # and stop there
        self.changed = threading.Condition()  # re-entrant
        self.failure: BaseException | None = None
        self.threads: list[threading.Thread] = []

    @property
    def size(self) -> int:
        """Numbers in a message, and in an answer."""
        return HEAD + sum(tensor.numel() for tensor in (*self.parameters, *self.statistics))

    def start(self) -> None:
        """Starts a thread for the leader of every group but an own one."""
        for leader in self.leaders:
            if leader != self.ranks.number:
                self.threads.append(threading.Thread(target=self._serve, args=(leader,), daemon=True))
                self.threads[-1].start()

    def answer(self, leader: int, message: Tensor) -> Tensor:
        """(HEAD + P + Q,): head, gradients of the P weights, changes of the Q statistics -> head, P and Q now."""
        kind, epoch, stop = message[: HEAD - 1].int().tolist()
        with self.changed:
            good = self.apply(epoch, message[HEAD - 1], message[HEAD:]) if kind == UPDATE else True
            if stop:
                self.meet(stop=True)
            if kind in (UPDATE, TICK):
                self.clocks[leader] += 1
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.failure or self._lead(leader) <= self.staleness)
            if self.failure:
                raise self.failure
            return self.packed(good, 0)

    def packed(self, good: bool, step: int) -> Tensor:
        """(HEAD + P + Q,): an answer."""
        head = torch.tensor([float(good), float(self.meet_at), float(self.stop), float(step)])
        return torch.cat([head, concatenated([*self.parameters, *self.statistics])])

    def meet(self, stop: bool) -> None:
        """Calls all ranks to a checkpoint: at the first clock that none of them has passed when it learns of it."""
        with self.changed:
            self.meet_at = self.meet_at or max(self.clocks.values()) + 2
            self.stop |= stop

    def begin(self, clock: int) -> None:
        """Sets the clocks of all groups to the same value after a meeting."""
        with self.changed:
            self.clocks, self.meet_at = dict.fromkeys(self.leaders, clock), 0

    def forget_others(self) -> None:
        """Drops the optimiser's state of parameters that other servers hold."""
        for part in parts_of(self.updater.optimizer):
            for parameter in self.others:
                part.state.pop(parameter, None)

    def finish(self) -> None:
        """Waits for the last message of every leader."""
        for thread in self.threads:
            thread.join()

    def _lead(self, leader: int) -> int:
        return self.clocks[leader] - min(self.clocks.values())

    def apply(self, epoch: int, norm: Tensor | None, changes: Tensor) -> bool:
        """Updates the weights and the statistics by (P + Q,) changes; returns whether the gradient was good.

        `norm`: that of the whole gradient; None where this server has all of it.

        With several servers each of them decides by the same rule whether the gradient is bad."""
        parts = changes.split([tensor.numel() for tensor in (*self.parameters, *self.statistics)])
        for parameter, part in zip(self.parameters, parts, strict=False):
            parameter.grad = part.view_as(parameter).to(parameter) if parameter.requires_grad else None
        good = self.updater.update(epoch, norm)
        if good:
            for buffer, part in zip(self.statistics, parts[len(self.parameters) :], strict=True):
                buffer += part.view_as(buffer).to(buffer)
        return good

    def _serve(self, leader: int) -> None:
        message = torch.empty(self.size)
        try:
            while True:
                dist.recv(message, leader, tag=QUESTION)
                if message[0] == END:
                    return
                answer = self.answer(leader, message)
                dist.send(answer, leader, tag=ANSWER)
                self.ranks.traffic["weights"] += answer.nbytes
        except BaseException as error:
            with self.changed:
                self.failure = self.failure or error
                self.changed.notify_all()
            dist.send(torch.full((self.size,), FAILED), leader, tag=ANSWER)  # no rank waits for it in vain
