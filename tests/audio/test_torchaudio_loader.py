"""torchaudio beside a torch without CUDA."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ds2.audio.torchaudio_loader import _stand_in, functional


def test_resamples_in_a_fresh_process() -> None:
    code = (
        "import torch; from ds2.audio.torchaudio_loader import functional; "
        "print(functional().resample(torch.ones(160), 16000, 8000).shape)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "torch.Size([80])"


def test_only_changed_speed_imports_torchaudio() -> None:
    code = (
        "import sys, torch; from ds2.audio.tensors import resample; from ds2.audio.speed import change_speed; "
        "resample(torch.ones(160), 16000, 8000); change_speed(torch.ones(160), 16000, 1.0); "
        "print('torchaudio' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("extension", "outcome"),
    [
        ("mark = 'its own'", "its own"),
        ("raise OSError('libcudart.so.13: cannot open shared object file')", "stand-in"),
        ("raise ImportError('another trouble')", "ImportError: another trouble"),
    ],
)
def test_the_stand_in_comes_only_when_the_library_cannot_load(tmp_path: Path, extension: str, outcome: str) -> None:
    """A torchaudio of three lines, in a separate process."""
    package = tmp_path / "torchaudio"
    package.mkdir()
    (package / "__init__.py").write_text("from torchaudio import _extension\n")
    (package / "_extension.py").write_text(extension)
    (package / "functional.py").write_text(
        "import sys\nmark = getattr(sys.modules['torchaudio._extension'], 'mark', 'stand-in')\n"
    )
    code = "from ds2.audio.torchaudio_loader import functional; print(functional().mark)"
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert (result.stdout + result.stderr).strip().endswith(outcome)


def test_is_loaded_once() -> None:
    assert functional() is functional()


def test_what_needs_the_extension_says_so_only_when_called() -> None:
    guarded = _stand_in().fail_if_no_align(torch.abs)
    with pytest.raises(RuntimeError, match="compiled extension"):
        guarded()
