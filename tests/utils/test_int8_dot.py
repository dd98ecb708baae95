"""Products of int8 for another processor than this one, as an image holds them."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features


@pytest.mark.long
@pytest.mark.parametrize(("name", "feature"), [("x86-64-v3", "avx2"), ("generic", "")])
def test_kernels_for_a_named_processor_compile_on_one_that_has_more(name: str, feature: str, tmp_path: Path) -> None:
    if feature and not get_host_cpu_features().get(feature):
        pytest.skip(f"a processor without {feature}")
    script = """
        import numpy as np
        from ds2.utils.int8_linear import Int8Weight, int8_linear
        random = np.random.default_rng(0)
        weight, x = (random.normal(size=(rows, 64)).astype(np.float32) for rows in (12, 5))
        rounded = Int8Weight.of(weight)
        found = int8_linear(x, rounded, np.zeros(12, np.float32))
        assert np.allclose(found, x @ (rounded.levels * rounded.scale[:, None]).T, atol=2e-3)
    """
    environment = {**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, env=environment)
