"""The weights that training begins with."""

from torch import Tensor, nn


def draw_normal(weight: Tensor, std: float) -> None:
    """Fills a (...) weight from a normal distribution; one without memory stays so, where torch would load its
    compiler for seconds."""
    if not weight.is_meta:
        nn.init.normal_(weight, std=std)
