"""Formulas as MathML, which browsers draw by themselves: without a script, also without a network."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(convert(_rows(node.astext()), display="block") + "</div>\n")
    raise nodes.SkipNode


def _rows(latex: str) -> str:
    """The formula; if it is broken into lines, those are aligned."""
    latex = latex.strip()
    if r"\\" in latex and r"\begin" not in latex:
        return rf"\begin{{aligned}}{latex}\end{{aligned}}"
    return latex


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
