"""A strategy driven step by step in a real rank, for tests that fix the order of updates."""

import copy
import time
from pathlib import Path

import torch
from conftest import TINY
from helpers.training import plain_config

from ds2.data.dataset import Batch
from ds2.data.utterance import Utterance
from ds2.model.acoustic import AcousticModel
from ds2.train.config import ParallelConfig
from ds2.train.distributed.asynchronous import Asynchronous
from ds2.train.distributed.backup_workers import BackupServer, BackupWorkers
from ds2.train.distributed.parameter_server import buffers
from ds2.train.distributed.ranks import Ranks
from ds2.train.objective import Objective
from ds2.train.update import Updater


def trained_in_turns(ranks: Ranks, strategy: str, group: int, servers: int, output: str) -> None:
    """Two updates of every group, one group after the other; saves weights and traffic of each rank."""
    torch.manual_seed(1)
    config = plain_config(Path("unused.jsonl"))
    parallel = ParallelConfig(strategy, group=group, servers=servers)  # type: ignore[arg-type]
    model = AcousticModel(TINY, 5).train()
    served = copy.deepcopy(model) if ranks.number < parallel.served_by else model
    chosen = Asynchronous(Objective(model, config), Updater(served, config, 10), ranks, parallel)
    chosen.begin_epoch()
    torch.manual_seed(ranks.number)
    for _ in range(2):
        for turn in range(ranks.size // parallel.workers):
            if ranks.number // parallel.workers == turn:
                agreement = chosen.agree(2, False, False)
                chosen.backward(random_batch(), (1,), agreement.utterances, True)
                chosen.update(0)
            ranks.barrier()
    chosen.settle()
    chosen.finish()
    parameters = [parameter.numel() for parameter in model.parameters()]
    found = {
        "model": model.state_dict(),
        "traffic": dict(ranks.traffic),
        "sizes": (sum(parameters), sum(buffer.numel() for buffer in buffers(model))),
        "shares": [sum(parameters[part.start : part.stop]) for part in chosen.parts],
    }
    ranks.barrier()
    torch.save(found, f"{output}.{ranks.number}.pt")


def random_batch() -> Batch:
    """Two utterances of a second of noise, with two labels each."""
    utterances = [Utterance(Path("noise.wav"), 1.0, "ab")] * 2
    samples = 0.1 * torch.randn(2, 8000)
    return Batch(samples, torch.tensor([8000, 8000]), torch.tensor([[1, 2]] * 2), torch.tensor([2, 2]), utterances, [])


def trained_with_a_late_rank(ranks: Ranks, output: str) -> None:
    """Eight minibatches by two of three ranks: rank 2 sends its first gradient after two updates of rank 1, and rank 0
    wants a checkpoint. Saves what each rank has done."""
    torch.manual_seed(1)
    config = plain_config(Path("unused.jsonl"))
    model = AcousticModel(TINY, 5).train()
    updater = Updater(copy.deepcopy(model) if ranks.first else model, config, 10)
    chosen = BackupWorkers(Objective(model, config), updater, ranks, ParallelConfig("backup-workers"))
    chosen.begin_epoch()
    torch.manual_seed(ranks.number)
    two_updates, skipped, saved_at = Path(f"{output}two_updates"), 0, []
    for number in range(8):
        agreement = chosen.agree(2, ranks.first and number == 1, False)
        if agreement.utterances:
            chosen.backward(random_batch(), (1,), agreement.utterances, True)
            while ranks.number == 2 and number == 0 and not two_updates.exists():
                time.sleep(0.01)
            chosen.update(0)
        else:
            skipped += 1
        if ranks.number == 1 and number == 1:
            two_updates.touch()
        if agreement.save:
            chosen.replicas()
            saved_at.append(number + 1)
    chosen.settle()
    chosen.finish()
    server = chosen.server
    found = {
        "model": model.state_dict(),
        "minibatches": chosen.clock,
        "skipped": skipped,
        "saved_at": saved_at,
        "left_out": server.left_out if isinstance(server, BackupServer) else 0,
    }
    ranks.barrier()
    torch.save(found, f"{output}{ranks.number}.pt")
