"""Formulas as MathML, which browsers show without scripts or fonts from elsewhere."""

from typing import Any, NoReturn

from docutils import nodes
from latex2mathml.converter import convert


def write_inline(translator: Any, node: nodes.math) -> NoReturn:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def write_block(translator: Any, node: nodes.math_block) -> NoReturn:
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    return {"parallel_read_safe": True}
