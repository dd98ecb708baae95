"""Joining and leaving the ranks of a run."""

import subprocess
import sys
from pathlib import Path


def test_no_thread_outlives_the_ranks(tmp_path: Path) -> None:
    """Such a thread would sometimes abort a process at its exit."""
    script = tmp_path / "join.py"
    script.write_text(
        "import pathlib, torch\n"
        "from ds2.train.distributed.ranks import join_ranks\n"
        "with join_ranks('cpu') as (ranks, _):\n"
        "    ranks.barrier()\n"
        "    torch.optim.SGD([torch.zeros(1)])\n"
        "print(*(path.read_text().strip() for path in pathlib.Path('/proc/self/task').glob('*/comm')))\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "gloo" not in result.stdout
    assert len(result.stdout.splitlines()) == 2


def test_a_pause_lasts_as_long_as_another_rank_computes(tmp_path: Path) -> None:
    """The second rank begins half a second of work when the first one waits for it."""
    script, waiting = tmp_path / "pause.py", tmp_path / "waiting"
    script.write_text(
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
        "        print(ranks.costs().waiting, ranks.costs().communication)\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    waited, communicated = map(float, result.stdout.split())
    assert waited >= 0.5
    assert communicated == 0
