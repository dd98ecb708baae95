"""Small neural language models of random weights."""

from collections.abc import Sequence

import numpy as np

from ds2.lm.neural import MATRICES, array_shapes
from ds2.utils.int8_linear import Int8Weight

DEVIATION = 0.5


def random_arrays(pieces: Sequence[str], width: int, cells: int, seed: int) -> dict[str, np.ndarray]:
    """The arrays of a model over these pieces; weights of DEVIATION forget their rounding, of 1 they may amplify it."""
    random = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for name, shape in array_shapes(len(pieces) + 1, width, cells).items():
        if name in MATRICES:
            levels, found[f"{name}_scales"] = Int8Weight.of((DEVIATION * random.normal(size=shape)).astype(np.float32))
            found[name] = levels[:, : shape[1]]
        elif not name.endswith("_scales"):
            found[name] = (DEVIATION * random.normal(size=shape)).astype(np.float32)
    return found
