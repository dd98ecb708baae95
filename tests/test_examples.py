"""Every script in examples/ runs as it is, and leaves no file."""

import runpy
import sys
from pathlib import Path

import pytest

import ds2

EXAMPLES = Path(ds2.__file__).parents[1] / "examples"
PRINTS = {
    "align.py": "applicants",
    "decode_log_probs.py": "deep speech",
    "live.py": "final: ",
    "train_with_ctc.py": "step 20: loss",
    "transcribe.py": "00:00:0",
}


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert PRINTS[name] in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
