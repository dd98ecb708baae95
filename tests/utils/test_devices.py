"""Names of devices."""

import pytest
import torch

from ds2.utils.devices import choose_device
from ds2.utils.errors import ParameterError


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_devices() -> None:
    assert choose_device("auto") == choose_device("cpu") == "cpu"
    for name in ("cuda", "cuda:9", "gpu", "meta", "mps"):
        with pytest.raises(ParameterError, match=f"device: '{name}'"):
            choose_device(name)
