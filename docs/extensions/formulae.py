"""Formulae as MathML, which browsers draw by themselves: no page asks another host for a script or a font."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer, `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def draw_inline(writer: Any, node: nodes.math) -> None:
    """A formula within a line."""
    writer.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def draw_block(writer: Any, node: nodes.math_block) -> None:
    """A formula on a line of its own, which scrolls where the page is narrower."""
    writer.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode
