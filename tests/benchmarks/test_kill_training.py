"""A short version of the benchmark that kills trainings."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_training.py"


@pytest.mark.long
def test_a_killed_training_ends_with_the_same_bytes() -> None:
    result = subprocess.run([sys.executable, str(SCRIPT), "--kills", "3"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "same bytes" in result.stdout
