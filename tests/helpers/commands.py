"""Helpers for tests of commands."""

from pathlib import Path

import numpy as np
import soundfile

Outcome = tuple[int, str, str]  # exit code, standard output, standard error


def write_noise(path: Path, seconds: float = 0.3, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.random.default_rng(seed).normal(0, 0.1, round(seconds * 8000)), 8000)
    return path


def assert_refused(outcome: Outcome, *parts: str) -> None:
    """Exit code 2 and one line on standard error that holds the parts; nothing on standard output."""
    code, output, errors = outcome
    assert code == 2
    assert output == ""
    assert errors.startswith("ds2: ")
    assert errors.count("\n") == 1
    for part in parts:
        assert part in errors
