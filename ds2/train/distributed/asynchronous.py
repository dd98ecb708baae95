"""Asynchronous training: each rank sends its gradients to a parameter server in the first rank when they are ready.

    rank 0   worker ----------------\\
             server, one thread for   apply -> wait while this rank is too far ahead -> newest weights
    rank 1   each rank  <-- socket --/

A rank waits only while it is more than `staleness` updates ahead of the slowest (stale synchronous parallel,
Ho et al. 2013). The price: its gradient belongs to weights that others have updated since.
"""

import threading
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.profiler import record_function

from ds2.data.dataset import Batch
from ds2.train.config import ParallelConfig
from ds2.train.distributed.ranks import Ranks, copy_flat
from ds2.train.distributed.strategy import Agreement, load_replica, replica
from ds2.train.objective import Objective
from ds2.train.update import Updater, parameter_gradients

UPDATE, TICK, FETCH, END = range(
    4
)  # kinds of message: a gradient; no gradient, but the clock advances; a request for the weights; the last message
HEAD = 3  # numbers before the tensors; of a message: kind, epoch, wish to stop; of an answer: good, meet at, stop


def concatenated(tensors: Sequence[Tensor]) -> Tensor:
    """(N,) all values of the tensors, on the CPU."""
    return torch.cat([tensor.detach().flatten().cpu() for tensor in tensors])


def buffers(model: torch.nn.Module) -> list[Tensor]:
    return [buffer for buffer in model.buffers() if buffer.is_floating_point()]


class ParameterServer:
    """The weights, and how many updates each rank has made (its clock)."""

    def __init__(self, updater: Updater, ranks: Ranks, staleness: int):
        self.updater = updater
        self.staleness = staleness
        self.clocks = [0] * ranks.size
        self.meet_at = 0  # clock at which all ranks meet for a checkpoint; 0: none
        self.stop = False  # and stop there
        self.changed = threading.Condition()  # re-entrant
        self.failure: BaseException | None = None
        self.threads: list[threading.Thread] = []

    def start(self) -> None:
        """Starts a thread for every other rank."""
        size = message_size(self.updater)
        for rank in range(1, len(self.clocks)):
            self.threads.append(threading.Thread(target=self._serve, args=(rank, size), daemon=True))
            self.threads[-1].start()

    def answer(self, rank: int, message: Tensor) -> Tensor:
        """(HEAD + P + Q,): head, gradients of the P weights, changes of the Q statistics -> head, P and Q now."""
        kind, epoch, stop = message[:HEAD].int().tolist()
        with self.changed:
            good = self._apply(epoch, message[HEAD:]) if kind == UPDATE else True
            if stop:
                self.meet(stop=True)
            if kind in (UPDATE, TICK):
                self.clocks[rank] += 1
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.failure or self.clocks[rank] - min(self.clocks) <= self.staleness)
            if self.failure:
                raise self.failure
            model = self.updater.model
            head = torch.tensor([float(good), float(self.meet_at), float(self.stop)])
            return torch.cat([head, concatenated([*model.parameters(), *buffers(model)])])

    def meet(self, stop: bool) -> None:
        """Calls all ranks to a checkpoint: at the first clock that none of them has passed when it learns of it."""
        with self.changed:
            self.meet_at = self.meet_at or max(self.clocks) + 2
            self.stop |= stop

    def begin(self, clock: int) -> None:
        """Sets the clocks of all ranks to the same value after a meeting."""
        with self.changed:
            self.clocks, self.meet_at = [clock] * len(self.clocks), 0

    def finish(self) -> None:
        """Waits for the last message of every rank."""
        for thread in self.threads:
            thread.join()

    def _apply(self, epoch: int, changes: Tensor) -> bool:
        model = self.updater.model
        parameters, statistics = list(model.parameters()), buffers(model)
        sizes = [tensor.numel() for tensor in (*parameters, *statistics)]
        parts = changes.split(sizes)
        for parameter, part in zip(parameters, parts, strict=False):
            parameter.grad = part.view_as(parameter).to(parameter) if parameter.requires_grad else None
        good = self.updater.update(epoch)
        if good:
            for buffer, part in zip(statistics, parts[len(parameters) :], strict=True):
                buffer += part.view_as(buffer).to(buffer)
        return good

    def _serve(self, rank: int, size: int) -> None:
        message = torch.empty(size)
        try:
            while True:
                dist.recv(message, rank)
                if message[0] == END:
                    return
                dist.send(self.answer(rank, message), rank)
        except BaseException as error:
            with self.changed:
                self.failure = error
                self.changed.notify_all()


def message_size(updater: Updater) -> int:
    return HEAD + sum(tensor.numel() for tensor in (*updater.model.parameters(), *buffers(updater.model)))


class Asynchronous:
    """The strategy of one rank, see the file's head. The first rank's updater belongs to the server."""

    def __init__(self, objective: Objective, updater: Updater, ranks: Ranks, config: ParallelConfig):
        self.objective = objective
        self.model = objective.model
        self.ranks = ranks
        self.updater = updater
        self.clock = 0  # updates of this rank
        self.meet_at = 0
        self.wish_to_stop = self.stop = False
        self.empty = False
        self.server = ParameterServer(updater, ranks, config.staleness) if ranks.first else None
        if self.server is not None:
            self.server.start()
        self.fetched: Tensor = concatenated(buffers(self.model))  # statistics as last received from the server

    def begin_epoch(self) -> None:
        """Releases in the server what is released here, before any rank sends a gradient of it."""
        for served, own in zip(self.updater.model.parameters(), self.model.parameters(), strict=True):
            served.requires_grad_(own.requires_grad)
        self.ranks.barrier()

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        """Asks no other rank: the server, in the first rank, calls the meeting."""
        if self.server is not None and save:
            self.server.meet(stop=False)
        self.wish_to_stop = stop
        self.empty = utterances == 0
        here = self.clock + 1 == self.meet_at
        return Agreement(max(1, utterances), here, here and self.stop)

    def backward(self, batch: Batch, key: tuple[int, ...], utterances: float, last: bool) -> tuple[Tensor, Tensor]:
        """See `Strategy`; -> (B,) nats, (B,) output frames."""
        with record_function("ds2: forward"):
            losses, lengths = self.objective(batch, key)
        with record_function("ds2: backward"):
            (losses.sum() / utterances).backward()
        return losses.detach(), lengths

    def update(self, epoch: int) -> bool:
        changes = concatenated(buffers(self.model)) - self.fetched
        self.clock += 1
        gradient = concatenated(parameter_gradients(self.model))
        good = self._exchange(TICK if self.empty else UPDATE, epoch, gradient, changes)
        self.model.zero_grad(set_to_none=True)
        return good

    def settle(self) -> None:
        """When every rank is here all gradients are applied, since each rank waited for the answers."""
        self.ranks.barrier()
        self._exchange(FETCH, 0, concatenated(parameter_gradients(self.model)), torch.zeros_like(self.fetched))
        self.ranks.barrier()
        if self.server is not None:
            self.server.begin(self.clock)
        self.meet_at = 0
        self.ranks.barrier()

    def replicas(self) -> list[dict[str, Any]]:
        self.settle()
        return [replica(self.updater)]

    def load_replicas(self, saved: list[dict[str, Any]]) -> None:
        if self.ranks.first:
            load_replica(self.updater, saved, 0)
        self.settle()

    def finish(self) -> None:
        if self.server is not None:
            self.server.finish()
        else:
            dist.send(torch.tensor([float(END)]).expand(message_size(self.updater)).contiguous(), 0)

    def _exchange(self, kind: int, epoch: int, grads: Tensor, changes: Tensor) -> bool:
        head = torch.tensor([float(kind), float(epoch), float(self.wish_to_stop)])
        message = torch.cat([head, grads, changes])
        with record_function("ds2: communication"):
            if self.server is not None:
                answer = self.server.answer(0, message)
            else:
                dist.send(message, 0)
                answer = torch.empty_like(message)
                dist.recv(answer, 0)
        good, self.meet_at, self.stop = answer[:HEAD].int().tolist()
        tensors = [*self.model.parameters(), *buffers(self.model)]
        copy_flat(answer[HEAD:].to(tensors[0].device), tensors)
        self.fetched = answer[-self.fetched.numel() :]
        return bool(good)
