"""The benchmark of live streams, with two of them for two seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DIGITS

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "serve.py"


@pytest.mark.long
def test_every_system_is_measured(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARK), str(DIGITS / "utterances.jsonl"), "--quick", "--output", str(tmp_path)]
    subprocess.run(command, check=True)
    found = json.loads((tmp_path / "serve.json").read_text())
    assert list(found["loads"]) == ["eager", "one-by-one", "wait-to-fill", "loops"]
    for [outcome] in found["loads"].values():
        assert outcome["utterances"] > 0
        assert outcome["WER"] < 0.3  # all serve a model that knows the recordings' words
