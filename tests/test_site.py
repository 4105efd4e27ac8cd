"""What the site generates says what the program does; bad links are found; scripts are plain Python."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from pmafl.cli import app
from pmafl.scheduling import definitions
from pmafl.settings import PRESETS, Settings, load

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(autouse=True)
def site(monkeypatch):
    """The site's extensions, as Sphinx finds them."""
    monkeypatch.syspath_prepend(str(DOCS))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "extensions"]:
        del sys.modules[name]


def test_every_option_of_every_command_is_in_the_reference():
    from extensions import commands

    text = commands.text()
    for name, command in typer.main.get_command(app).commands.items():
        (part,) = re.findall(rf"^## pmafl {name}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
        for parameter in command.params:
            if parameter.name != "help" and parameter.param_type_name == "option":
                assert (f"`{parameter.opts[0]}`" in part) is not parameter.hidden


def test_every_setting_is_in_the_reference_with_range_default_and_origin():
    from extensions import settings

    parts = dict(
        re.findall(r"^### `([\w.]+)`\n(.*?)(?=^##|\Z)", settings.text(), flags=re.MULTILINE | re.DOTALL)
    )
    names = {
        f"{section}.{key}"
        for section, holder in Settings.model_fields.items()
        for key in holder.annotation.model_fields
    }
    assert set(parts) == names
    assert all("*Range*: " in part and "*Default*: " in part for part in parts.values())
    assert "*Unit*: Hz." in parts["cell.bandwidth_hz"]
    assert "greater than 0" in parts["cell.bandwidth_hz"]
    assert "| `mnist` | `1e7` | paper: B = 10 MHz |" in parts["cell.bandwidth_hz"]
    assert "*Default*: `0.5`" in parts["data.dirichlet_alpha"]
    assert "less than 0.5" in parts["learning.trim_share"]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_reference_reads_presets_as_the_program_does(preset):
    from extensions.settings import _stated

    known = load(preset)
    for name, (value, origin) in _stated(preset).items():
        section, _, key = name.partition(".")
        assert hasattr(getattr(known, section), key)
        assert value
        assert origin or preset != "mnist", f"{name} does not say where it is from"


def test_every_field_of_the_schema_is_in_the_reference():
    from extensions import contracts

    text = contracts.schedule()
    for part in ("problem", "device", "decision", "error"):
        assert all(f"| `{field}` |" in text for field in definitions()[part]["properties"])


def test_plans_and_records_are_described_key_by_key():
    from extensions import contracts

    assert "| `choices[].choice.rounds_per_day` | number |" in contracts.plan()
    assert "| `bandwidth_share` | list of numbers |" in contracts.record()


def test_a_tutorial_becomes_a_script_that_runs(tmp_path):
    jupytext = pytest.importorskip("jupytext")
    pytest.importorskip("sphinx")
    from extensions.tutorials import as_script

    page = "# Title\n\n```{code-cell} ipython3\n%%writefile a.toml\nx = 'a \"b\"'\n```\n\n" + (
        "```{code-cell} ipython3\nfrom IPython.display import Image\n!cat a.toml > \\\n   b.toml\n"
        "Image('b.png', width=3)\n```\n"
    )
    script = as_script(jupytext.reads(page, fmt="md:myst"))
    (tmp_path / "script.py").write_text(script, "utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (tmp_path / "b.toml").read_text() == "x = 'a \"b\"'\n"
    assert done.stdout == "look at b.png\n"


def test_a_notebook_is_read_without_the_site():
    pytest.importorskip("jupytext")
    pytest.importorskip("sphinx")
    from extensions.tutorials import as_notebook, as_script

    page = (
        "See [a page](../extend.md#a-policy), [another](first-run.md), [elsewhere](https://x.org/a.md),\n"
        "{py:class}`all of it <pmafl.wireless.RoundProblem>`, {py:mod}`pmafl.allocation`,\n"
        "{py:func}`~pmafl.wireless.min_share` and ![a picture](../../results/fig3-mnist.png).\n\n"
        '```{code-cell} ipython3\n---\nmystnb:\n  image:\n    alt: "a curve"\n---\n1 + 1\n```\n'
    )
    notebook = as_notebook(page)
    words, code = notebook.cells
    assert words.source == (
        "See [a page](../extend.html#a-policy), [another](first-run.html), [elsewhere](https://x.org/a.md),\n"
        "all of it (`pmafl.wireless.RoundProblem`), `pmafl.allocation`,\n"
        "`min_share` and ![a picture](../_images/fig3-mnist.png)."
    )
    assert code.source == "1 + 1"
    assert "mystnb" not in as_script(notebook)


@pytest.mark.parametrize(
    "page", sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how/*.md")]), ids=lambda page: page.stem
)
def test_every_figure_says_what_it_shows(page):
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```", page.read_text("utf-8"), flags=re.M | re.S)
    for cell in cells:
        if "plt.show()" in cell or "\nImage(" in cell:
            assert re.search(r'^    alt: ".{20,}"$', cell, flags=re.M), cell


def test_fields_of_docstrings_are_lists_with_one_entry_per_name():
    pytest.importorskip("sphinx")
    from extensions.modules import _understand

    lines = ["What.", "", "Attributes:", "    low, high: ends,", "        in metres.", "    mean: between."]
    _understand(None, "class", "", None, None, lines)
    assert lines[3:] == [
        *("    low: ends,", "        in metres.", "    high: ends,", "        in metres."),
        "    mean: between.",
    ]
    for what, field in (("class", ":ivar bits: how many."), ("function", ":param bits: how many.")):
        lines = ["What.", "", "bits: how many."]
        _understand(None, what, "", None, None, lines)
        assert lines[2] == field


def test_sources_have_no_ways_back_that_may_lead_nowhere():
    pytest.importorskip("sphinx")
    from extensions.modules import _without_ways_back

    body = '<div>\n<a class="viewcode-back" href="a.html#b.f">[docs]</a>\n<a href="a.html">def</a></div>'
    for page, kept in (("_modules/pmafl/rounds", False), ("reference/index", True)):
        context = {"body": body}
        _without_ways_back(None, page, "page.html", context, None)
        assert ("[docs]" in context["body"]) is kept
        assert '<a href="a.html">def</a>' in context["body"]


@pytest.mark.parametrize("name", ["train", "descend", "mean_gradient"])
def test_every_argument_of_the_engine_is_described_in_the_reference(name):
    pytest.importorskip("torch")
    from pmafl.learning.engine import Engine

    method = getattr(Engine, name)
    for argument in list(inspect.signature(method).parameters)[1:]:
        assert re.search(rf"^\s+{argument}: ", method.__doc__, flags=re.M), argument
    page = (DOCS / "reference" / "api" / "learning.md").read_text("utf-8")
    assert "<!-- generated: names pmafl.learning.engine -->" in page
    assert "<!-- generated: names pmafl.learning.model -->" in page


def test_links_that_lead_nowhere_are_found(tmp_path):
    pytest.importorskip("sphinx")
    from extensions.links import broken_links

    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a><a href="b.html#there">x</a><a href="c.html">x</a><a href="https://x.org/y">x</a>'
    )
    (tmp_path / "b.html").write_text(
        '<p id="here"></p><script src="https://x.org/z.js"></script><img src="p.png">'
    )
    assert broken_links(tmp_path) == [
        "a.html links to b.html#there, but that page has no such part",
        "a.html links to c.html, which is not there",
        "b.html loads https://x.org/z.js from elsewhere",
        "b.html links to p.png, which is not there",
    ]


def test_formulas_of_docstrings_become_mathml():
    convert = pytest.importorskip("latex2mathml.converter").convert
    from pmafl.wireless import upload_energy

    formula = re.search(r"\.\. math:: (.+)", upload_energy.__doc__)[1]
    assert "<mfrac>" in convert(formula)


def test_what_a_formula_has_that_no_browser_draws_is_a_warning():
    pytest.importorskip("latex2mathml")
    nodes = pytest.importorskip("docutils.nodes")
    pytest.importorskip("sphinx")
    from extensions import mathml

    said = []
    mathml.LOG = SimpleNamespace(warning=lambda text, *words, **_: said.append(text % words))
    drawn = mathml._converted(nodes.math(), r"\theta \approx \arg\min F, f_{\max}", "inline")
    assert ">arg</mo>" in drawn
    assert said == []
    mathml._converted(nodes.math(), r"a \unheardof b", "inline")
    assert said == [r"no MathML is known for \unheardof"]
