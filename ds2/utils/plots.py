"""Figures of matplotlib, drawn without pyplot: the back end that the caller chose stays as it is."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds2.utils.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def subplots(rows: int = 1, columns: int = 1, *, size: tuple[float, float], **options: Any) -> "tuple[Figure, Any]":
    """A figure of `size` inches and its axes, as `pyplot.subplots` gives them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def save_png(figure: "Figure", path: Path, dpi: int = 150) -> None:
    """Writes the figure as PNG, whole or not at all."""
    with atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=dpi)
