"""A node of a training dies and another takes its place, by torchrun."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.spark_cluster import free_port
from helpers.train_toml import small_toml

PATIENCE = 120  # seconds
FIRST, SECOND, THIRD = (f"127.0.0.{number}" for number in (1, 2, 3))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--max-restarts=3"]
# As in deploy/kubernetes/jobs/train-elastic.yaml, and for the same reason.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.long
def test_a_node_in_the_place_of_another_goes_on_to_the_same_bytes(
    spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    (tmp_path / "train.toml").write_text(small_toml(spoken_digits(12)).replace("epochs = 3", "epochs = 8"))

    def start(name: str, address: str, rendezvous: str) -> "subprocess.Popen[bytes]":
        # Where all addresses are this machine's, each torchrun would take itself for the one that others connect to.
        meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint={rendezvous}", f"--local-addr={address}",
                   f"--rdzv-conf=is_host={address == FIRST}"]  # fmt: skip
        train = ["-m", "ds2", "train", str(tmp_path / "train.toml"), "--output", str(tmp_path / name)]
        with (tmp_path / f"{name}.log").open("ab") as log:
            return subprocess.Popen([*TORCHRUN, *meeting, *train], env=ENVIRONMENT, stdout=log, stderr=log)

    undisturbed = f"127.0.0.1:{free_port()}"
    for node in [start("undisturbed", address, undisturbed) for address in (FIRST, SECOND)]:
        assert node.wait(PATIENCE) == 0
    disturbed = f"127.0.0.1:{free_port()}"
    first, dying = (start("disturbed", address, disturbed) for address in (FIRST, SECOND))
    until(lambda: "epoch 1:" in (tmp_path / "disturbed.log").read_text())
    subprocess.run(["pkill", "-KILL", "--parent", str(dying.pid)], check=True)  # its rank
    dying.kill()
    dying.wait()
    other = start("disturbed", THIRD, disturbed)
    assert [node.wait(PATIENCE) for node in (first, other)] == [0, 0]
    assert "resuming at epoch" in (tmp_path / "disturbed.log").read_text()
    one, two = ((tmp_path / name / "best.safetensors").read_bytes() for name in ("undisturbed", "disturbed"))
    assert one == two
