"""Formulas as MathML, which browsers draw by themselves: without a script, also without a network."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

LOG = logging.getLogger(__name__)


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_converted(node, node.astext(), "inline"))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(_converted(node, _rows(node.astext()), "block") + "</div>\n")
    raise nodes.SkipNode


def _converted(node: nodes.Element, latex: str, display: str) -> str:
    """The formula as MathML; a command that the converter does not know is a warning."""
    found = convert(_known(latex), display=display)
    for command in unknown_commands(found):
        LOG.warning("no MathML is known for %s", command, type="mathml", location=node)
    return found


def unknown_commands(mathml: str) -> list[str]:
    """The commands of LaTeX that were left in the text of a formula."""
    return re.findall(r">\s*(\\\w*)", mathml)


def _known(latex: str) -> str:
    """An index such as max is a word, not an operator with limits; arg is one that the converter lacks."""
    latex = latex.replace(r"_{\max}", r"_{\mathrm{max}}").replace(r"_{\min}", r"_{\mathrm{min}}")
    return re.sub(r"\\arg(?![a-z])", r"\\operatorname*{arg}", latex)


def _rows(latex: str) -> str:
    """The formula; if it is broken into lines, those are aligned."""
    latex = latex.strip()
    if r"\\" in latex and r"\begin" not in latex:
        return rf"\begin{{aligned}}{latex}\end{{aligned}}"
    return latex


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
