"""A strategy driven step by step in a real rank, for tests that fix the order of updates."""

import copy
from pathlib import Path

import torch
from conftest import TINY
from helpers.training import plain_config

from ds2.data.dataset import Batch
from ds2.data.utterance import Utterance
from ds2.model.acoustic import AcousticModel
from ds2.train.config import ParallelConfig
from ds2.train.distributed.asynchronous import Asynchronous
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
