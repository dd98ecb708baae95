"""Processes forked after torch has run on several threads."""

import subprocess
import sys
from pathlib import Path

import pytest

FORK = """
import os, signal, sys, torch
torch.set_num_threads(2)
{work}
first = result()
child = os.fork()
if child == 0:
    signal.alarm(100)
    os._exit(0 if result() == first else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
TRANSCRIBE = """
import ds2
recognizer = ds2.load("digits", "cpu")
result = lambda: recognizer.transcribe({audio!r}).text
"""
CTC = """
from ds2.ctc import ctc_loss
logits, targets = torch.randn(4, 50, 300), torch.ones(4, 5, dtype=torch.int64)
result = lambda: ctc_loss(logits, targets, torch.full((4,), 50), torch.full((4,), 5)).tolist()
"""


@pytest.mark.parametrize("work", [TRANSCRIBE, CTC], ids=["transcribe", "ctc"])
def test_a_forked_process_goes_on(work: str) -> None:
    """With the same results; it would wait for ever for its parent's threads."""
    audio = Path(__file__).parents[2] / "recipes" / "digits" / "audio" / "so762_000010035.opus"
    script = FORK.format(work=work.format(audio=str(audio)))
    subprocess.run([sys.executable, "-c", script], check=True)
