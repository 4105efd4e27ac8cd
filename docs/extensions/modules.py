"""The reference of the Python API, from docstrings, which are written to be read in an editor.

Their habits are made known to Sphinx: an indented block after a colon is code, a paragraph of lines
``name: what it is`` is a list of attributes or parameters, ``one, other: what they are`` are two of these,
and a bar is a bar.
"""

import importlib
import re
from typing import Any

from sphinx.application import Sphinx

FIELD = re.compile(r"[a-z_][a-z_, ]*: ")
SEVERAL = re.compile(r"( *)([a-z_]+(?:, [a-z_]+)+)(: .*)")
KINDS = {"class": "ivar ", "exception": "ivar ", "function": "param ", "method": "param "}


def names(module: str) -> str:
    """What a module defines."""
    return f"```{{eval-rst}}\n.. automodule:: {module}\n   :members:\n```"


def text(package: str, registry: str) -> str:
    """The modules of what a package registers, one after the other."""
    registered = getattr(importlib.import_module(package), registry)
    modules = dict.fromkeys(registered.find(name).__module__ for name in registered)
    return "\n\n".join(f"## `{module}`\n\n{names(module)}" for module in modules)


def _understand(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Mend a docstring's lines in place."""
    if what in ("attribute", "property") and lines:
        lines[0] = lines[0].replace(": ", " -- ", 1)  # what stands before is no type
    _part_names(lines)
    for place in range(len(lines) - 2):
        line, gap, block = lines[place : place + 3]
        if re.search(r"[^:]:$", line) and not gap and block.startswith(" " * (_indent(line) + 1)):
            lines[place] = f"{line}:"
    start = 0
    while start < len(lines):
        end = next((place for place in range(start, len(lines)) if not lines[place]), len(lines))
        outer = [place for place in range(start, end) if not lines[place].startswith(" ")]
        if outer and all(FIELD.match(lines[place]) for place in outer):
            for place in outer:
                lines[place] = f":{KINDS.get(what, '')}{lines[place]}"
        start = end + 1
    inside = False  # a formula or code, where a bar is a bar
    for place, line in enumerate(lines):
        if line and _indent(line) == 0:
            inside = line.startswith((".. ", ">>>"))
        if not inside:
            parts = re.split(r"(`[^`]*`)", line)
            lines[place] = "".join(part if part[:1] == "`" else part.replace("|", r"\|") for part in parts)


def _part_names(lines: list[str]) -> None:
    """Mend in place: an entry per name, where one has several names."""
    place = 0
    while place < len(lines):
        end = place + 1
        if found := SEVERAL.fullmatch(lines[place]):
            indent, several, said = found.groups()
            while end < len(lines) and _indent(lines[end]) > len(indent):
                end += 1
            more = lines[place + 1 : end]
            entries = [line for name in several.split(", ") for line in (f"{indent}{name}{said}", *more)]
            lines[place:end] = entries
            end = place + len(entries)
        place = end


ARRAYS = {  # NumPy's types in the words of the code
    r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?numpy\.float64\]\]": "Array",
    r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?numpy\.bool\w*\]\]": "Mask",
    r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?numpy\.int\w+\]\]": "Index",
    r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?typing\.Any\]\]": "NDArray",
    r"~?numpy\.random\._generator\.Generator": "Generator",
}


def _shorten(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Signatures as one would write them."""

    def short(words: str | None) -> str | None:
        for pattern, word in ARRAYS.items():
            words = words and re.sub(pattern, word, words)
        return words

    return short(signature), short(returned)


def _without_ways_back(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Sources link to where a name is documented, by the name that they have for it, which may be another."""
    if page.startswith("_modules/"):
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context["body"])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-process-docstring", _understand, priority=400)  # before napoleon
    app.connect("html-page-context", _without_ways_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
