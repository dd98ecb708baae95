"""Joining and leaving the ranks of a run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.train_toml import small_toml

from ds2.train.distributed.ranks import join_ranks


def run_by_two_ranks(script: Path, program: str) -> str:
    """What the ranks print."""
    script.write_text(program)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return result.stdout


@pytest.mark.long
def test_no_thread_outlives_the_ranks(tmp_path: Path) -> None:
    """Such a thread would sometimes abort a process at its exit."""
    printed = run_by_two_ranks(
        tmp_path / "join.py",
        "import pathlib, torch\n"
        "from ds2.train.distributed.ranks import join_ranks\n"
        "with join_ranks('cpu') as (ranks, _):\n"
        "    ranks.barrier()\n"
        "    torch.optim.SGD([torch.zeros(1)])\n"
        "print(*(path.read_text().strip() for path in pathlib.Path('/proc/self/task').glob('*/comm')))\n",
    )
    assert "gloo" not in printed
    assert len(printed.splitlines()) == 2


@pytest.mark.long
def test_no_thread_outlives_a_training(tmp_path: Path, spoken_digits: Callable[[int], Path]) -> None:
    """Such a thread would sometimes abort a process that has done its work."""
    (tmp_path / "train.toml").write_text(small_toml(spoken_digits(8)).replace("epochs = 3", "epochs = 1"))
    arguments = ["train", str(tmp_path / "train.toml"), "--output", str(tmp_path / "run")]
    printed = run_by_two_ranks(
        tmp_path / "train.py",
        "import gc, pathlib\n"
        "from ds2.cli.main import main\n"
        "gc.disable()  # whether it would free the group in time is chance\n"
        f"main({arguments})\n"
        "tasks = pathlib.Path('/proc/self/task').glob('*/comm')\n"
        "print('threads', *(path.read_text().strip() for path in tasks))\n",
    )
    assert printed.count("threads") == 2
    assert "gloo" not in printed


@pytest.mark.long
def test_a_pause_lasts_as_long_as_another_rank_computes(tmp_path: Path) -> None:
    """The second rank begins half a second of work when the first one waits for it."""
    waiting = tmp_path / "waiting"
    printed = run_by_two_ranks(
        tmp_path / "pause.py",
        "import pathlib, time\n"
        "from ds2.train.distributed.ranks import join_ranks\n"
        "with join_ranks('cpu') as (ranks, _):\n"
        "    group = ranks.subgroup(2)\n"
        f"    waiting = pathlib.Path({str(waiting)!r})\n"
        "    while not ranks.first and not waiting.exists():\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(0.0 if ranks.first else 0.5)\n"
        "    with group.pause('waiting'):\n"
        "        waiting.touch()\n"
        "        ranks.barrier()\n"
        "    if ranks.first:\n"
        "        print(ranks.costs().waiting, ranks.costs().communication)\n",
    )
    waited, communicated = map(float, printed.split())
    assert waited >= 0.5
    assert communicated == 0


def test_the_gpu_that_is_named_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its random state is the one in checkpoints."""
    chosen: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for name in ("cpu", "cuda", "cuda:1"):
        with join_ranks(name) as (_, device):
            assert device == name
    assert chosen == ["cuda:1"]
