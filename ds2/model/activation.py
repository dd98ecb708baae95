"""The nonlinearity of all layers: the clipped ReLU, f(x) = min(max(x, 0), 20) (Deep Speech 2, section 3.1)."""

from torch import Tensor, nn

from ds2.model.config import CLIP


def clipped_relu(x: Tensor) -> Tensor:
    """(...) -> (...), between 0 and CLIP."""
    return nn.functional.hardtanh(x, 0.0, CLIP)
