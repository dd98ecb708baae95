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
