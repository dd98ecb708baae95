"""Synchronous training: every update is made of the whole minibatch, the gradients summed over all ranks."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
from ds2.train.distributed.strategy import Agreement, load_replica, replica
from ds2.train.objective import Objective
from ds2.train.update import Updater
from ds2.utils.errors import InputError

HOOKS: dict[str, Callable[..., Any]] = {
    "none": default_hooks.allreduce_hook,
    "float16": default_hooks.fp16_compress_hook,
    "bfloat16": default_hooks.bf16_compress_hook,
    "powersgd": powerSGD_hook.powerSGD_hook,
}


@dataclass
class Computed:
    """When this rank had computed the last of its gradients.

    It stands apart because DDP holds its hook where Python cannot see it: a hook that refers to DDP, as by the
    strategy, is never freed, nor are the threads of the group, which then may abort the process at its exit.
    """

    at: float = 0.0  # seconds of a monotonic clock


class Synchronous:
    """One minibatch, one update: gradients are summed over ranks by torch's DDP; one process needs nothing more."""

    def __init__(self, objective: Objective, updater: Updater, ranks: Ranks, config: ParallelConfig):
        """`ranks`: those whose gradients are summed."""
        self.updater = updater
        self.ranks = ranks
        self.compression = config.compression
        self.alone = objective
        self.objective: Any = objective  # or DDP around it
        self.trained: list[bool] = []  # which parameters DDP expects gradients of
        self.computed = Computed()
        if ranks.size > 1 and config.synchronize_batch_norm:
            synchronize_statistics(objective.model, ranks)

    def begin_epoch(self) -> None:
        """Makes DDP anew where other parameters are trained than before."""
        trained = [parameter.requires_grad for parameter in self.alone.parameters()]
        # DDP expects the gradients of the parameters that it was made with.
        if self.ranks.size > 1 and trained != self.trained:
            self.trained = trained
            self.objective = DistributedDataParallel(self.alone, process_group=self.ranks.group)
            compress(self.objective, self.compression, self.ranks, self.computed)

    def agree(self, utterances: int, save: bool, stop: bool) -> Agreement:
        """The utterances of all ranks in this minibatch, and whether all save or stop."""
        total, saves, stops = self.ranks.total([utterances, save and self.ranks.first, stop])
        return Agreement(total, saves > 0, stops > 0)

    def backward(self, batch: Batch, key: tuple[int, ...], utterances: float, last: bool) -> tuple[Tensor, Tensor]:
        """-> (B,) nats, (B,) frames. DDP takes the mean over ranks, only with the last microbatch: hence the factor."""
        size = self.ranks.size
        with contextlib.nullcontext() if last or size == 1 else self.objective.no_sync():
            with record_function("ds2: forward"):
                losses, lengths = self.objective(batch, key)
            with record_function("ds2: backward"):
                self.updater.scaler.scale(losses.sum() * size / utterances).backward()
        if last and size > 1:  # backward() has returned with the gradients of all
            self.ranks.paused["communication"] += time.monotonic() - self.computed.at
        return losses.detach(), lengths

    def update(self, epoch: int) -> bool:
        """Updates the weights; returns whether the gradient was finite."""
        good = self.updater.update(epoch)
        self.updater.optimizer.zero_grad(set_to_none=True)
        return good

    def settle(self) -> None:
        """Does nothing: all ranks have the same weights."""

    def replicas(self) -> list[dict[str, Any]]:
        """The state of the only replica."""
        return [replica(self.updater)]

    def load_replicas(self, saved: list[dict[str, Any]]) -> None:
        """Takes over the saved state."""
        load_replica(self.updater, saved, 0)

    def finish(self) -> None:
        """Does nothing: no rank waits for another."""


def synchronize_statistics(model: AcousticModel, ranks: Ranks) -> None:
    """Makes batch normalisation take its statistics over the whole minibatch of these ranks.

    Raises:
        InputError: a BN-LSTM: it would wait for the others at every frame.
    """
    if model.config.spec.step_statistics:
        raise InputError(
            f"a {model.config.cell} has statistics of each rank only: set parallel.synchronize_batch_norm = false"
        )

    def total(tensor: Tensor) -> Tensor:
        return torch.as_tensor(_Sum.apply(tensor, ranks))

    for module in model.modules():
        if isinstance(module, MinibatchStatistics):
            module.total = total


class _Sum(torch.autograd.Function):
    """The sum of a tensor over the processes of a group; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        total = tensor.clone(memory_format=torch.contiguous_format)
        with ranks.pause("communication"):
            dist.all_reduce(total, group=ranks.group)
        ranks.traffic["group"] += total.nbytes
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return torch.as_tensor(_Sum.apply(grad, ctx.ranks)), None


def compress(model: DistributedDataParallel, name: str, ranks: Ranks, computed: Computed) -> None:
    """Compresses gradients to fewer bits, or to products of low rank (PowerSGD, Vogels et al. 2019), and counts bytes.

    `computed` gets the time when this rank has computed the gradients of a bucket, before they are exchanged.

    Raises:
        InputError: bfloat16 without NCCL, which torch's hook needs.
    """
    if name == "bfloat16" and not dist.is_nccl_available():
        raise InputError('parallel.compression = "bfloat16" needs GPUs and NCCL; "float16" does not')
    state: Any = ranks.group
    if name == "powersgd":
        state = powerSGD_hook.PowerSGDState(ranks.group, start_powerSGD_iter=10)

    def counted(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        computed.at = time.monotonic()
        before = getattr(state, "total_numel_after_compression", 0)
        size = bucket.buffer().nbytes
        future = HOOKS[name](state, bucket)
        products = getattr(state, "total_numel_after_compression", 0) - before  # 0 in PowerSGD's uncompressed start
        ranks.traffic["group"] += 4 * products or (size // 2 if name.endswith("16") else size)
        return future

    model.register_comm_hook(state, counted)
