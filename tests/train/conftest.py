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


@pytest.fixture
def train_command(spoken_digits: Callable[[int], Path], tmp_path: Path) -> "Callable[[str], subprocess.Popen[bytes]]":
    """train_command(folder): `ds2 train` of three epochs into a folder, with a worker, in a separate process group.

    Its standard error goes to folder.log.
    """
    manifest = spoken_digits(20)
    toml = tmp_path / "train.toml"
    toml.write_text(
        f'epochs = 3\nbatch_size = 4\ncheckpoint_minutes = 1e-6\n[data]\ntrain = ["{manifest}"]\ndev = "{manifest}"\n'
        "workers = 1\n[model]\nhidden = 16\nrecurrent_layers = 1\ndropout = 0.1\n"
        "convolutions = [{channels = 4, kernel = [11, 5], stride = [2, 2]}]\n[model.frontend]\nsample_rate = 8000\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def start(folder: str) -> "subprocess.Popen[bytes]":
        arguments = [sys.executable, "-m", "ds2", "train", str(toml), "--output", str(tmp_path / folder)]
        with (tmp_path / f"{folder}.log").open("w") as log:
            return subprocess.Popen(
                arguments, env=environment, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
            )

    return start
