"""How the gradients of several processes become updates: synchronous and mixed; asynchronous has a file of its own.

Every strategy is used in the same way, minibatch by minibatch:

    agree  ->  backward of every piece  ->  update          settle: before a model is judged
"""

import contextlib
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.profiler import record_function
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from ds2.data.dataset import Batch
from ds2.model.acoustic import AcousticModel
from ds2.model.normalization import MinibatchStatistics
from ds2.train.config import ParallelConfig
from ds2.train.distributed.ranks import Ranks
from ds2.train.objective import Objective
from ds2.train.update import Updater
from ds2.utils.errors import InputError


class Agreement(NamedTuple):
    """What all ranks do next."""

    utterances: float  # that the coming update is made of
    save: bool  # a checkpoint behind it
    stop: bool  # after that checkpoint


class Strategy(Protocol):
    """See the file's head. `Replica` is the state of one group of ranks whose weights are the same."""

    updater: Updater

    def begin_epoch(self) -> None:
        """After parts of the model may have been frozen or thawed."""
        ...

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement: ...

    def backward(self, batch: Batch, key: tuple[int, ...], utterances: float, last: bool) -> tuple[Tensor, Tensor]:
        """Adds the gradients of a piece of a minibatch of `utterances`; -> (B,) nats, (B,) output frames."""
        ...

    def update(self, epoch: int) -> bool: ...

    def settle(self) -> None: ...

    def replicas(self) -> list[dict[str, Any]]:
        """On every rank the state of all replicas: one, unless weights differ between ranks."""
        ...

    def load_replicas(self, saved: list[dict[str, Any]]) -> None: ...

    def finish(self) -> None: ...


class Synchronous:
    """One minibatch, one update: the sum over ranks of the gradients, by torch's DDP; in one process nothing more."""

    def __init__(self, objective: Objective, updater: Updater, ranks: Ranks, config: ParallelConfig):
        self.updater = updater
        self.ranks = ranks
        self.group = self._group(config)
        self.size = ranks.size if self.group is None else self.group.size()
        self.compression = config.compression
        self.alone = objective
        self.objective: Any = objective  # or DDP around it
        self.trained: list[bool] = []  # which parameters DDP knows
        if self.size > 1 and config.synchronize_batch_norm:
            synchronize_statistics(objective.model, self.group)

    def _group(self, config: ParallelConfig) -> "dist.ProcessGroup | None":
        """Whose gradients are summed; None: all ranks'."""
        return None

    def begin_epoch(self) -> None:
        trained = [parameter.requires_grad for parameter in self.alone.parameters()]
        if self.size > 1 and trained != self.trained:  # DDP waits for the gradients that it counted on when it was made
            self.trained = trained
            self.objective = DistributedDataParallel(self.alone, process_group=self.group)
            compress(self.objective, self.compression, self.group)

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        total, saves, stops = self.ranks.total([utterances, save and self.ranks.first, stop])
        return Agreement(total, saves > 0, stops > 0)

    def backward(self, batch: Batch, key: tuple[int, ...], utterances: float, last: bool) -> tuple[Tensor, Tensor]:
        """DDP takes the mean over ranks, and only with the last piece: hence the factor, and `no_sync`."""
        alone = last or self.size == 1
        with contextlib.nullcontext() if alone else self.objective.no_sync():
            with record_function("ds2: forward"):
                losses, lengths = self.objective(batch, key)
            with record_function("ds2: backward"):
                self.updater.scaler.scale(losses.sum() * self.size / utterances).backward()
        return losses.detach(), lengths

    def update(self, epoch: int) -> bool:
        good = self.updater.update(epoch)
        self.updater.optimizer.zero_grad(set_to_none=True)
        return good

    def settle(self) -> None:
        pass

    def replicas(self) -> list[dict[str, Any]]:
        return [replica(self.updater)]

    def load_replicas(self, saved: list[dict[str, Any]]) -> None:
        load_replica(self.updater, saved, 0)

    def finish(self) -> None:
        pass


class Mixed(Synchronous):
    """Synchronous in groups, whose weights are averaged from time to time (post-local SGD, Lin et al. 2020)."""

    def __init__(self, objective: Objective, updater: Updater, ranks: Ranks, config: ParallelConfig):
        if ranks.size % config.group:
            raise InputError(f"parallel.group = {config.group} must divide the {ranks.size} ranks")
        self.own_group, self.groups = dist.new_subgroups(config.group)
        self.average_every = config.average_every
        super().__init__(objective, updater, ranks, config)

    def _group(self, config: ParallelConfig) -> dist.ProcessGroup:
        return self.own_group

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        counts = self.ranks.gather((utterances, save, stop))
        start = self.ranks.number // self.size * self.size
        total = sum(count for count, _, _ in counts)
        own = sum(count for count, _, _ in counts[start : start + self.size])
        own = max(own, min(total, 1))  # a group that has nothing keeps step with the others
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


def replica(updater: Updater) -> dict[str, Any]:
    return {"model": updater.model.state_dict(), **updater.state_dict()}


def load_replica(updater: Updater, saved: list[dict[str, Any]], number: int, groups: int = 1) -> None:
    """The replica of this group; where there were more or fewer groups, the mean of their weights."""
    own = saved[number] if len(saved) == groups else saved[0]
    weights = own["model"]
    if len(saved) != groups:
        weights = {name: sum(other["model"][name] for other in saved) / len(saved) for name in weights}
    updater.model.load_state_dict(weights)
    updater.load_state_dict(own)


def synchronize_statistics(model: AcousticModel, group: "dist.ProcessGroup | None") -> None:
    """Batch normalisation takes its statistics over the parts of a minibatch that all processes of the group hold.

    Raises:
        InputError: a BN-LSTM: it would wait for the others at every frame.
    """
    if model.config.cell == "bn-lstm":
        raise InputError("a bn-lstm has statistics of each rank only: set parallel.synchronize_batch_norm = false")

    def total(tensor: Tensor) -> Tensor:
        return torch.as_tensor(_Sum.apply(tensor, group))

    for module in model.modules():
        if isinstance(module, MinibatchStatistics):
            module.total = total


class _Sum(torch.autograd.Function):
    """The sum of a tensor over the processes of a group; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: "dist.ProcessGroup | None") -> Tensor:
        ctx.group = group
        total = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return torch.as_tensor(_Sum.apply(grad, ctx.group)), None


def compress(model: DistributedDataParallel, name: str, group: "dist.ProcessGroup | None") -> None:
    """Gradients travel in fewer bits, or as products of low rank (PowerSGD, Vogels et al. 2019).

    Raises:
        InputError: bfloat16 without NCCL, which torch's hook needs.
    """
    if name == "bfloat16" and not dist.is_nccl_available():
        raise InputError('parallel.compression = "bfloat16" needs GPUs and NCCL; "float16" does not')
    if name == "powersgd":
        model.register_comm_hook(
            powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=10), powerSGD_hook.powerSGD_hook
        )
    elif name != "none":
        hooks = {"float16": default_hooks.fp16_compress_hook, "bfloat16": default_hooks.bf16_compress_hook}
        model.register_comm_hook(group, hooks[name])
