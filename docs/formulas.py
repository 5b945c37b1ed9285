"""Write formulas as MathML, which browsers draw without a script and without a network."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator


def mathml(formula: str, display: str) -> str:
    """A formula in TeX as MathML."""
    # Browsers leave no space around a name such as ln, unless it is an operator.
    operator = r'<mo lspace="0.17em" rspace="0.17em">\1</mo>'
    return re.sub(r"<mi>([a-z]{2,})</mi>", operator, convert(formula, display=display))


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, in a box that scrolls, also by keyboard."""
    formula = mathml(node.astext(), "block")
    box = translator.starttag(
        node, "div", CLASS="formula", tabindex="0", role="group", **{"aria-label": "Formula"}
    )
    translator.body.append(f"{box}{formula}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer as `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
