"""Ranks: the processes that train one model together, and the messages between them."""

import contextlib
import dataclasses
import gc
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist

# The functions of this module take the group of all ranks as a default argument. Imported while a group exists (torch's
# optimisers import it) they keep the group and its threads alive, and the process sometimes aborts at exit.
import torch.distributed.nn.functional
from torch import Tensor, nn
from torch.autograd.profiler import record_function

from ds2.train.distributed import slurm
from ds2.utils.errors import InputError

Traffic = Counter[str]  # bytes that this rank handed over for the others, by link: "group", "weights", "server 0"
Pause = Literal["waiting", "communication"]  # until the others have computed as much; until an exchange is done


class Costs(NamedTuple):
    """What the others cost a rank."""

    sent: int = 0  # bytes
    waiting: float = 0.0  # seconds
    communication: float = 0.0  # seconds; what goes on beside the computation does not count

    def since(self, before: "Costs") -> "Costs":
        """What was added since then."""
        return Costs(self.sent - before.sent, self.waiting - before.waiting, self.communication - before.communication)


@dataclass(frozen=True)
class Ranks:
    """This process among those of a run, or of a group of them; by default it is the only one."""

    number: int = 0
    size: int = 1
    start: int = 0  # number in the run of the group's first rank
    group: "dist.ProcessGroup | None" = None  # None: all ranks of the run
    traffic: Traffic = field(default_factory=Counter)  # shared with the groups of a run
    # Seconds, shared like the traffic.
    paused: dict[Pause, float] = field(default_factory=lambda: {"waiting": 0.0, "communication": 0.0})

    @property
    def first(self) -> bool:
        """The first rank writes and logs for all."""
        return self.number == 0

    def subgroup(self, size: int) -> "Ranks":
        """The group of this rank, where ranks of consecutive numbers form groups of `size`.

        Raises:
            InputError: the groups would not be of equal size.
        """
        if self.size % size:
            raise InputError(f"parallel.group = {size} must divide the {self.size} ranks")
        group = dist.new_subgroups(size)[0] if size > 1 else None
        start = self.number // size * size
        return dataclasses.replace(self, number=self.number % size, size=size, start=start, group=group)

    def costs(self) -> Costs:
        """What this rank has spent since it joined the run."""
        return Costs(self.traffic.total(), self.paused["waiting"], self.paused["communication"])

    @contextlib.contextmanager
    def pause(self, kind: Pause) -> Iterator[None]:
        """Counts the seconds of the context, in which this rank computes nothing, and marks them in the timeline."""
        began = time.monotonic()
        with record_function(f"ds2: {kind}"):
            yield
        self.paused[kind] += time.monotonic() - began

    def total(self, values: Sequence[float]) -> list[float]:
        """Sums over all ranks, exact for counts."""
        if self.size == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(sums, group=self.group)
        return [float(value) for value in sums]

    def gather(self, item: Any) -> list[Any]:
        """The item of every rank, in their order, on every rank."""
        if self.size == 1:
            return [item]
        items: list[Any] = [None] * self.size
        dist.all_gather_object(items, item, group=self.group)
        return items

    def barrier(self) -> None:
        """Waits until all ranks are here."""
        self.total([0.0])

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Copies the first rank's tensors to all."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, self.start, group=self.group)
            if self.first:
                self.traffic["weights"] += sum(tensor.nbytes for tensor in tensors)

    def average(self, module: nn.Module) -> None:
        """Sets parameters and floating-point buffers on all ranks to their mean."""
        if self.size > 1:
            tensors = [tensor for tensor in module.state_dict().values() if tensor.is_floating_point()]
            joined = torch.cat([tensor.flatten() for tensor in tensors])
            dist.all_reduce(joined, group=self.group)
            self.traffic["weights"] += joined.nbytes
            copy_flat(joined / self.size, tensors)


def copy_flat(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copies (N,) values into tensors that have N elements in all, one after the other."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    with torch.no_grad():
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))


@contextlib.contextmanager
def join_ranks(device: str) -> Iterator[tuple[Ranks, str]]:
    """Joins the processes that torchrun or srun started, if one did; yields them and this one's device.

    NCCL carries tensors on a GPU; gloo carries all others, including the short messages of every step.
    """
    _take_over_slurm()
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if device == "cuda" and size > 1:
        # Slurm may show each task its own GPU alone.
        device = f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
    if device.startswith("cuda:"):  # random states and graphs are those of the current device
        torch.cuda.set_device(device)
    if size == 1:
        yield Ranks(), device
        return
    store, number, size = next(dist.rendezvous("env://"))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # This store survives a restart, with the addresses of dead processes in it. A new node, which has not been
        # restarted as often, needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: torchrun's start has a store of its own then.
        store = dist.PrefixStore(f"start {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    dist.init_process_group(backend, store=store, rank=number, world_size=size)
    try:
        yield Ranks(number, size), device
    finally:
        dist.destroy_process_group()
        # DDP, which is in a circle, still holds the group. A thread of the group that returns to Python while Python
        # ends aborts the process, so they must end now.
        gc.collect()


def _take_over_slurm() -> None:
    """Makes a task of srun a rank, with a thread for each of its processors."""
    variables = slurm.rank_variables(os.environ)
    if variables and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(int(os.environ.get("SLURM_CPUS_PER_TASK", "1")))
    os.environ.update(variables)
