"""Every script in examples/ runs as it is, and leaves no file."""

import runpy
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

import ds2
from ds2.data.layouts import LAYOUTS
from ds2.model.cell_kernels import KERNELS
from ds2.model.cells import CELLS

EXAMPLES = Path(ds2.__file__).parents[1] / "examples"
PRINTS = {
    "align.py": "applicants",
    "decode_log_probs.py": "deep speech",
    "digit_strings.py": "60 strings, ",
    "live.py": "final: ",
    "new_cell.py": "update 10: loss ",
    "new_kernel.py": "[[0, 2], [4, 7]]\nequal",
    "new_layout.py": "for five years\nleft out: lost.opus: ",
    "new_protocol.py": "final: zero zero zero",
    "train_with_ctc.py": "step 20: loss",
    "transcribe.py": "00:00:0",
}
OF_A_SERVER = {"client.py"}  # tests/serve/test_client.py runs it


@pytest.mark.parametrize("name", sorted({path.name for path in EXAMPLES.glob("*.py")} - OF_A_SERVER))
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.chdir(tmp_path)
    with patch.dict(CELLS), patch.dict(KERNELS), patch.dict(LAYOUTS):  # the tables that examples add to
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert PRINTS[name] in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
