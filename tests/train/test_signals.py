"""Ctrl-C and SIGTERM."""

import os
import re
import signal
from pathlib import Path

import pytest
from helpers.training import Manifests, augmented_config, wait_for

from ds2.train.checkpoint import load_checkpoint
from ds2.train.trainer import Trainer


def test_ctrl_c_writes_a_checkpoint_and_says_how_to_continue(train_command, tmp_path: Path) -> None:
    """SIGINT to trainer and worker, as a terminal sends it, after the first checkpoint."""
    stopped = train_command("stopped")
    wait_for(tmp_path / "stopped" / "checkpoint.pt", stopped)
    os.killpg(stopped.pid, signal.SIGINT)
    assert stopped.wait(120) == 130
    errors = (tmp_path / "stopped.log").read_text()
    assert re.search(r"^ds2: stopped in epoch \d; run the same command again to continue\n\Z", errors, re.MULTILINE)
    assert load_checkpoint(tmp_path / "stopped" / "checkpoint.pt")["state"]["epoch"] < 3


def test_a_second_ctrl_c_ends_training_at_once(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(augmented_config(spoken_digits(4)), tmp_path / "run")
    before = signal.getsignal(signal.SIGINT)

    def interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        assert trainer.signals.received == signal.SIGINT
        signal.raise_signal(signal.SIGINT)

    trainer._train_minibatch = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert not (tmp_path / "run" / "checkpoint.pt").exists()
    assert signal.getsignal(signal.SIGINT) == before
