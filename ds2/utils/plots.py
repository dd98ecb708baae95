"""Figures of matplotlib, drawn without pyplot: the back end that the caller chose stays as it is."""

import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds2.utils.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "SimHei",
)

logger = logging.getLogger(__name__)


def subplots(rows: int = 1, columns: int = 1, *, size: tuple[float, float], **options: Any) -> "tuple[Figure, Any]":
    """A figure of `size` inches and its axes, as `pyplot.subplots` gives them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def save_png(figure: "Figure", path: Path, dpi: int = 150) -> None:
    """Writes the figure as PNG, whole or not at all; warns where no font has some of its letters."""
    _add_chinese_fonts(figure)
    with warnings.catch_warnings(record=True) as caught, atomic_write(path) as partial:
        warnings.simplefilter("always")
        figure.savefig(partial, format="png", dpi=dpi)
    others = [each for each in caught if "missing from font" not in str(each.message)]
    if len(others) < len(caught):
        logger.warning("%s: no font here has some of its letters; install one, such as fonts-noto-cjk", path)
    for each in others:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _add_chinese_fonts(figure: "Figure") -> None:
    """Lets texts take letters that the usual font lacks from those of CHINESE_FONTS that are installed."""
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    if installed := sorted(set(fontManager.get_font_names()).intersection(CHINESE_FONTS)):
        for text in figure.findobj(Text):
            text.set_fontfamily([*text.get_fontfamily(), *installed])
