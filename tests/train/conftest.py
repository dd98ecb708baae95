"""A run in several real processes, as a person starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """launch(ranks, manifest, folder, "key=value", ...): `ds2 train` of a small model under torchrun."""

    def start(ranks: int, manifest: Path, folder: Path, *settings: str, restarts: int = 0) -> "subprocess.Popen[str]":
        toml = tmp_path / "train.toml"
        toml.write_text(small_toml(manifest))
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        command = [sys.executable, *torchrun, "--max-restarts", str(restarts), "-m", "ds2.cli", "train", str(toml)]
        options = [f"--set={setting}" for setting in settings]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [*command, "--output", str(folder), *options], env=environment, stderr=subprocess.PIPE, text=True
        )

    return start


def small_toml(manifest: Path) -> str:
    """SGD, whose updates are in proportion to the gradients; every sample of augmentation but no masks over features,
    which are drawn for each rank."""
    return (
        f"epochs = 3\nbatch_size = 4\ncheckpoint_every = 2\n[data]\ntrain = [{json.dumps(str(manifest))}]\n"
        f"dev = {json.dumps(str(manifest))}\nworkers = 0\n[model]\nhidden = 16\nrecurrent_layers = 2\n"
        "fully_connected = 12\nrandom_walk = 2\nconvolutions = [{channels = 4, kernel = [11, 5], stride = [2, 2]}]\n"
        '[model.frontend]\nsample_rate = 8000\n[optimizer]\nname = "sgd"\nlearning_rate = 1e-4\nmomentum = 0.9\n'
        "[augment]\nfrequency_masks = 0\ntime_masks = 0\n"
    )
