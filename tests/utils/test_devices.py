"""Names of devices, and the threads of NumPy's products."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch

from ds2.utils.devices import _openblas, choose_device, one_thread_a_product, use_threads
from ds2.utils.errors import ParameterError


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_devices() -> None:
    assert choose_device("auto") == choose_device("cpu") == "cpu"
    for name in ("cuda", "cuda:9", "gpu", "meta", "mps"):
        with pytest.raises(ParameterError, match=f"device: '{name}'"):
            choose_device(name)


@pytest.mark.skipif(not _openblas(), reason="NumPy has another library for products")
def test_products_have_one_thread_and_get_theirs_back(monkeypatch: pytest.MonkeyPatch) -> None:
    [library] = Path(np.__file__).parents[1].glob("numpy.libs/libscipy_openblas*")
    threads = ctypes.CDLL(str(library)).scipy_openblas_get_num_threads64_
    before, of_torch = threads(), torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    try:
        use_threads(2)
        assert threads() == 2
        with one_thread_a_product():
            with one_thread_a_product():
                assert threads() == 1
            assert threads() == 1  # another thread may still be in such a block
        assert threads() == 2
    finally:
        use_threads(before)
        torch.set_num_threads(of_torch)
