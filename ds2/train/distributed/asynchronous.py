"""Asynchronous training by parameter servers, of single ranks or of groups: the mixed strategy (ICCS 2017).

    gradient of a group (synchronous.py) -> its leader -> parameter servers -> its leader -> weights of the group

A group is one rank (`asynchronous`) or several (`mixed`); its first rank is the leader. The servers are threads in the
first ranks, see parameter_server.py; a dedicated one has no utterances, and only its clock advances.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ds2.train.config import ParallelConfig
from ds2.train.distributed.parameter_server import (
    ANSWER,
    END,
    FAILED,
    FETCH,
    HEAD,
    QUESTION,
    TICK,
    UPDATE,
    ParameterServer,
    buffers,
    concatenated,
    divide,
)
from ds2.train.distributed.ranks import Ranks, copy_flat
from ds2.train.distributed.strategy import Agreement, load_replica, replica
from ds2.train.distributed.synchronous import Synchronous
from ds2.train.objective import Objective
from ds2.train.optimizer import joined_state
from ds2.train.update import Updater, parameter_gradients
from ds2.utils.errors import InputError


class Asynchronous(Synchronous):
    """The strategy of one rank, see the file's head. In ranks that are servers the updater belongs to the server."""

    def __init__(self, objective: Objective, updater: Updater, ranks: Ranks, config: ParallelConfig):
        if config.served_by > ranks.size:
            raise InputError(f"parallel.servers = {config.servers}: there are only {ranks.size} ranks")
        if config.dedicated_ranks == ranks.size:
            raise InputError("parallel.dedicated: all ranks are servers; start more, which train")
        super().__init__(objective, updater, ranks.subgroup(config.workers), config)
        self.model = objective.model
        self.everyone = ranks
        self.clock = 0  # updates of this group
        self.meet_at = 0
        self.step = 0  # that the server works on; backup workers have one
        self.wish_to_stop = self.stop = False
        self.empty = False
        self.parts = divide(self.model, config.served_by)
        self.server: ParameterServer | None = None
        if ranks.number < config.served_by:
            leaders = range(0, ranks.size, self.ranks.size)
            self.server = self.make_server(leaders, self.parts[ranks.number], config)
            self.server.start()
        self.fetched: Tensor = concatenated(buffers(self.model))  # statistics as last received from the server

    def make_server(self, leaders: Sequence[int], own: range, config: ParallelConfig) -> ParameterServer:
        """The server of the parameters `own`, which talks to these leaders."""
        return ParameterServer(self.updater, self.everyone, leaders, own, config.staleness)

    def begin_epoch(self) -> None:
        """Releases in the servers what is released here, before any rank sends a gradient of it."""
        super().begin_epoch()
        for served, own in zip(self.updater.model.parameters(), self.model.parameters(), strict=True):
            served.requires_grad_(own.requires_grad)
        self.everyone.barrier()

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        """Asks no other group: the server, in the first rank, calls the meeting."""
        if self.everyone.first and save:
            self._own_server.meet(stop=False)
        total, stops = self.ranks.total([utterances, stop])
        self.wish_to_stop = stops > 0
        self.empty = total == 0
        here = self.clock + 1 == self.meet_at
        return Agreement(max(1, total), here, here and self.stop)

    def update(self, epoch: int) -> bool:
        """Sends the gradient to the servers and takes over their weights; returns whether the gradient was finite."""
        self.clock += 1
        good = self._exchange(TICK if self.empty else UPDATE, epoch)
        self.model.zero_grad(set_to_none=True)
        return good

    def settle(self) -> None:
        """When every rank is here all gradients are applied, since each group waited for the answers."""
        self.everyone.barrier()
        self._exchange(FETCH, 0)
        if self.server is not None:  # the parts of other servers
            copy_flat(concatenated(tensors_of(self.model)), tensors_of(self.server.updater.model))
        self.everyone.barrier()
        if self.server is not None:
            self.server.begin(self.clock)
        self.meet_at = 0
        self.everyone.barrier()

    def replicas(self) -> list[dict[str, Any]]:
        """The state of the only replica, joined from the parts of all servers."""
        self.settle()
        states = self.everyone.gather(self.updater.optimizer.state_dict() if self.server is not None else None)
        return [{**replica(self.updater), "optimizer": joined_state([state for state in states if state is not None])}]

    def load_replicas(self, saved: list[dict[str, Any]]) -> None:
        """Takes over a saved state, each server its part."""
        if self.server is not None:
            load_replica(self.updater, saved, 0)
            self.server.forget_others()
        self.settle()

    def finish(self) -> None:
        """Ends the servers."""
        if self.ranks.first:
            for server, message in enumerate(self._messages(END, 0)):
                if server in self._remote:
                    dist.send(message, server, tag=QUESTION)
        if self.server is not None:
            self.server.finish()

    @property
    def _own_server(self) -> ParameterServer:
        assert self.server is not None
        return self.server

    @property
    def _remote(self) -> list[int]:
        return [server for server in range(len(self.parts)) if server != self.everyone.number]

    def _exchange(self, kind: int, epoch: int) -> bool:
        """The leader talks to the servers, then the group gets the weights, the statistics and the answer's head."""
        tensors = tensors_of(self.model)
        with self.ranks.pause("communication"):
            if self.ranks.first:
                received = self._ask_servers(kind, epoch)
            else:
                received = torch.empty(HEAD + sum(tensor.numel() for tensor in tensors))
            self.ranks.broadcast([received])
        good, self.meet_at, self.stop, self.step = received[:HEAD].int().tolist()
        copy_flat(received[HEAD:].to(tensors[0].device), tensors)
        self.fetched = received[len(received) - len(self.fetched) :]
        return bool(good)

    def _ask_servers(self, kind: int, epoch: int) -> Tensor:
        """-> (HEAD + P + Q,): head, all weights, the statistics."""
        messages = self._messages(kind, epoch)
        sending = [dist.isend(messages[server], server, tag=QUESTION) for server in self._remote]
        for server in self._remote:
            self.ranks.traffic[f"server {server}"] += messages[server].nbytes
        answers = [
            self._receive(server, message)
            if server in self._remote
            else self._own_server.answer(self.everyone.number, message)
            for server, message in enumerate(messages)
        ]
        for request in sending:
            assert request is not None
            request.wait()
        good = min(answer[0] for answer in answers)
        weights, statistics = answers[0][HEAD:].split([len(answers[0]) - HEAD - len(self.fetched), len(self.fetched)])
        return torch.cat([good[None], answers[0][1:HEAD], weights, *(each[HEAD:] for each in answers[1:]), statistics])

    def _messages(self, kind: int, epoch: int) -> list[Tensor]:
        """One for each server."""
        gradients = parameter_gradients(self.model)
        head = torch.tensor([float(kind), float(epoch), float(self.wish_to_stop), self.last_of_head(gradients)])
        messages = [torch.cat([head, concatenated(gradients[part.start : part.stop])]) for part in self.parts]
        messages[0] = torch.cat([messages[0], concatenated(buffers(self.model)) - self.fetched])
        return messages

    def last_of_head(self, gradients: Sequence[Tensor]) -> float:
        """Gradients of (P,) weights in all -> their norm, since each server gets a part of them."""
        return float(nn.utils.get_total_norm(gradients))

    def _receive(self, server: int, message: Tensor) -> Tensor:
        answer = torch.empty_like(message)
        dist.recv(answer, server, tag=ANSWER)
        if answer[0] == FAILED:
            raise RuntimeError(f"the parameter server in rank {server} failed")
        return answer


def tensors_of(model: nn.Module) -> list[Tensor]:
    """The weights and the statistics."""
    return [*model.parameters(), *buffers(model)]
