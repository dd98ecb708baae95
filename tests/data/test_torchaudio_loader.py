"""torchaudio beside a torch without CUDA."""

import subprocess
import sys

import pytest
import torch

from ds2.data.torchaudio_loader import _stand_in, functional


def test_resamples_in_a_fresh_process() -> None:
    code = (
        "import torch; from ds2.data.torchaudio_loader import functional; "
        "print(functional().resample(torch.ones(160), 16000, 8000).shape)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "torch.Size([80])"


def test_is_loaded_once() -> None:
    assert functional() is functional()


def test_what_needs_the_extension_says_so_only_when_called() -> None:
    guarded = _stand_in().fail_if_no_align(torch.abs)
    with pytest.raises(RuntimeError, match="compiled extension"):
        guarded()
