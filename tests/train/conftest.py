"""A run in several real processes, as a person starts it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.train_toml import small_toml

Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """launch(ranks, manifest, folder, "key=value", ...): `ds2 train` of a small model under torchrun."""

    def start(ranks: int, manifest: Path, folder: Path, *settings: str, restarts: int = 0) -> "subprocess.Popen[str]":
        toml = tmp_path / "train.toml"
        toml.write_text(small_toml(manifest))
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        command = [sys.executable, *torchrun, "--max-restarts", str(restarts), "-m", "ds2", "train", str(toml)]
        options = [f"--set={setting}" for setting in settings]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [*command, "--output", str(folder), *options], env=environment, stderr=subprocess.PIPE, text=True
        )

    return start
