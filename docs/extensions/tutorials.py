"""Tutorials to take along: of every executed page a notebook and a plain script, beside it on the site.

A page is one source (MyST with code cells). In the script, what is special to notebooks becomes plain Python:
``!command`` a subprocess, ``%%writefile`` a file that is written, ``Image`` a line that names the picture.
In both, links lead to the pages of the site, seen from their place on it, and roles of Sphinx become the
names that they stand for.
"""

import os
import re
from pathlib import Path

import jupytext
import nbformat
from sphinx.application import Sphinx

FOLDER = "tutorials/"
CELL = re.compile(r"^```\{code-cell\}", flags=re.MULTILINE)
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)]*)?\))")
ROLE = re.compile(r"\{py:\w+\}`(?:([^`<]+) <)?([^`>]+)>?`")
CONFIGURATION = """\
c.InteractiveShell.system_raise_on_error = True
c.Application.log_level = 40  # kernels talk to this machine only
c.InlineBackend.figure_formats = {"svg"}
"""
OFFER = """
<p class="offer"><a href="{name}.ipynb" download>Notebook</a> <a href="{name}.py" download>Script</a></p>
"""


def is_tutorial(docname: str, text: str) -> bool:
    return docname.startswith(FOLDER) and bool(CELL.search(text))


def as_notebook(text: str) -> nbformat.NotebookNode:
    """The page as a notebook that is read away from Sphinx."""
    notebook = jupytext.reads(text, fmt="md:myst")
    for cell in notebook.cells:
        cell.metadata.pop("mystnb", None)
        if cell.cell_type == "markdown":
            cell.source = ROLE.sub(_name, LINK.sub(_address, cell.source))
    return notebook


def _address(link: re.Match[str]) -> str:
    """Where the site has a page or a picture, from the folder of tutorials."""
    path = Path(link[2])
    if path.suffix == ".png":
        path = Path("..", "_images", path.name)
    elif path.suffix == ".md":
        path = path.with_suffix(".html")
    return link[1] + path.as_posix() + link[3]


def _name(role: re.Match[str]) -> str:
    words, target = role.groups()
    name = f"`{target.rpartition('.')[2] if target.startswith('~') else target}`"
    return f"{words} ({name})" if words else name


def as_script(notebook: nbformat.NotebookNode) -> str:
    """The notebook as a program that needs no notebook."""
    script = nbformat.v4.new_notebook(metadata=notebook.metadata)
    for cell in notebook.cells:
        plain = dict(cell, source=_plain(cell.source)) if cell.cell_type == "code" else cell
        script.cells.append(nbformat.from_dict(plain))
    helpers = [
        line
        for word, line in (("subprocess.run(", "import subprocess"), ("Path(", "from pathlib import Path"))
        if any(word in cell.source for cell in script.cells if cell.cell_type == "code")
    ]
    if helpers:
        script.cells.insert(0, nbformat.v4.new_code_cell("\n".join(helpers)))
    return str(jupytext.writes(script, fmt="py:light"))


def _plain(source: str) -> str:
    if written := re.match(r"%%writefile (\S+)\n", source):
        text = source[written.end() :].rstrip("\n") + "\n"
        quotes = "'''" if '"""' in text else '"""'
        return f"Path({written[1]!r}).write_text({'r' if chr(92) in text else ''}{quotes}\\\n{text}{quotes})"
    lines = []
    for line in source.replace("\\\n", "").splitlines():
        if line.startswith("!"):
            command = re.sub(r"\s+", " ", line[1:].strip())
            line = f"subprocess.run({command!r}, shell=True, check=True)"
        elif line.startswith("Image("):
            line = re.sub(r"^Image\(([^,)]+).*", r'print("look at", \1)', line)
        if not line.startswith("from IPython"):
            lines.append(line)
    return "\n".join(lines)


def _offer(app: Sphinx, docname: str, source: list[str]) -> None:
    """The two links under the page's title."""
    if is_tutorial(docname, source[0]):
        name = docname.removeprefix(FOLDER)
        source[0] = re.sub(
            r"^(# .+\n)", lambda title: title[1] + OFFER.format(name=name), source[0], count=1, flags=re.M
        )


def _write(app: Sphinx, problem: Exception | None) -> None:
    if problem is not None or app.builder.format != "html":
        return
    for path in sorted((Path(app.srcdir) / FOLDER).glob("*.md")):
        text = path.read_text("utf-8")
        if not is_tutorial(FOLDER + path.stem, text):
            continue
        notebook = as_notebook(text)
        target = Path(app.outdir) / FOLDER / path.stem
        target.with_suffix(".ipynb").write_text(nbformat.writes(notebook), "utf-8")
        target.with_suffix(".py").write_text(as_script(notebook), "utf-8")


def _configure(app: Sphinx) -> None:
    """A command that fails in a tutorial fails the build, as it would in the script; pictures are sharp."""
    home = Path(app.doctreedir).resolve() / "ipython"
    profile = home / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(CONFIGURATION)
    os.environ["IPYTHONDIR"] = str(home)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", _configure)
    app.connect("source-read", _offer)
    app.connect("build-finished", _write, priority=400)  # before links are checked
    return {"parallel_read_safe": True, "parallel_write_safe": True}
