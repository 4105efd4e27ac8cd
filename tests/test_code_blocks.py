"""Every block of code in README.md and the docs is run, or checked as far as it goes, or says why it is not.

Python is executed, on a small data set and for two rounds. Commands are parsed by the program itself: options
exist, settings are known and valid, policies and algorithms are found. What needs a network, devices or root
stands in `ELSEWHERE`, or has a comment above it: ``<!-- not executed: it fetches FEMNIST -->``. Code cells of
tutorials are executed when the site is built.
"""

import re
import shlex
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import typer

from pmafl import settings as settings_module
from pmafl.cli import app
from pmafl.commands.compare import variations
from pmafl.comparison import with_options
from pmafl.errors import InputError
from pmafl.experiments.leaderboard import read_methods
from pmafl.learning.algorithms import find_algorithm
from pmafl.scheduling import find_policy
from pmafl.settings import PRESETS, load, parse_assignment

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(
    r"(?:<!-- not executed: (?P<why>.+?) -->\n\s*)?"
    r"^(?P<indent> *)```(?P<kind>[\w{}-]*)[^\n]*\n(?P<code>.*?)^ *```",
    flags=re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^ {4}(?=(?:pmafl|python|make|pip|curl) )", flags=re.MULTILINE)
PROGRAM = typer.main.get_command(app)
# Programs that a block may call without our knowing their options, and why they are not started here.
ELSEWHERE = {
    "openssl": "makes keys, needs no checking of ours",
    "ssh-keygen": "makes keys",
    "flwr": "talks to a SuperLink",
    "flower-superlink": "listens on a port",
    "flower-supernode": "listens on a port",
    "nginx": "listens on a port",
    "curl": "asks a server",
    "pip": "installs",
    "apt-get": "installs, as root",
    "systemctl": "needs root",
    "python3": "makes an environment",
    "git": "needs a repository",
}
SHELL_WORDS = {"for", "do", "done", "until", "export", "cd", "mkdir", "cat", "printf", "kill", ".", "source"}
SHORT = {
    "policy": "policy.name",
    "algorithm": "learning.algorithm",
    "rounds": "run.rounds",
    "seed": "run.seed",
}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str
    code: str
    why_not: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page):
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        indent, kind, code = found["indent"], found["kind"], found["code"]
        code = re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
        line = text[: found.start("code")].count("\n")
        if kind in ("console", "bash"):
            kind = "sh"
        if kind == "" and re.match(r"pmafl ", code):
            kind = "sh"
        yield Block(page, line, kind, code, found["why"] or "")
    outside = FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in COMMAND.finditer(outside):
        end = re.compile(r"(?<!\\)\n").search(outside, found.end())
        code = outside[found.end() : end.start() if end else None]
        yield Block(page, outside[: found.start()].count("\n") + 1, "sh", code, "")


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
PYTHON = [block for block in BLOCKS if block.kind == "python"]
SHELL = [block for block in BLOCKS if block.kind == "sh"]


def test_blocks_are_found_and_each_has_a_verdict():
    kinds = Counter(block.kind for block in BLOCKS)
    assert kinds["python"] >= 10
    assert kinds["sh"] >= 40
    assert kinds["{code-cell}"] >= 40  # these the site's build executes
    assert set(kinds) <= {
        "python",
        "sh",
        "{code-cell}",
        "{eval-rst}",
        "{toctree}",
        "toml",
        "json",
        "ini",
        "text",
        "",
    }
    left_out = [block for block in PYTHON if block.why_not]
    assert len(left_out) <= 3, "few blocks may say that they are not executed"


@pytest.fixture
def small_runs(tiny, tmp_path, monkeypatch):
    """Whatever is loaded is a small problem; files are written into a folder of their own."""
    plain = settings_module.load

    def load_small(source="mnist", overrides=None):
        known = plain(source, overrides)
        if known.run.learning == "none":
            return plain(source, {**(overrides or {}), "run.rounds": 2})
        return plain(source, {**(overrides or {}), **tiny, "run.rounds": 2})

    monkeypatch.setattr(settings_module, "load", load_small)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON}), ids=lambda page: page.stem)
def test_python_runs(page, small_runs):
    """Blocks of a page are run one after the other, as a reader would who copies them."""
    names = {}
    for block in PYTHON:
        if block.page != page or block.why_not:
            continue
        code = compile(block.code, str(block), "exec")
        if named := re.match(r"# (\w+)\.py", block.code):
            (small_runs / f"{named[1]}.py").write_text(block.code, "utf-8")
        exec(code, names)


def commands_of(block):
    """The commands of a block as lists of words, without comments, redirections and what is only shell."""
    text = re.sub(r"<<(\w+)\n.*?\n\1\n", "\n", block.code, flags=re.DOTALL).replace("\\\n", " ")
    for line in text.splitlines():
        for command in re.split(r"\s*(?:&&|\|\||;|\||(?<!>)&(?!\d))\s*", re.sub(r"(?<!\S)#.*", "", line)):
            command = re.sub(r"\s\d?[<>]+\s*\S+", "", command)
            words = shlex.split(command)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words and words[0] not in SHELL_WORDS:
                yield words


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_would_run(block, tmp_path, monkeypatch):
    if block.why_not:
        pytest.skip(block.why_not)
    for other in PYTHON:  # plug-ins that the page shows
        if other.page == block.page and (named := re.match(r"# (\w+)\.py", other.code)):
            (tmp_path / f"{named[1]}.py").write_text(other.code, "utf-8")
            sys.modules.pop(named[1], None)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, *words in commands_of(block):
        program = name.rpartition("/")[2]
        if program == "pmafl":
            assert_known(words)
        elif program == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
            assert set(words) <= set(targets)
        elif program == "python" and words[0] == "-m":
            source = (ROOT / Path(*words[1].split("."))).with_suffix(".py").read_text("utf-8")
            assert all(f'"{word}"' in source for word in words[2:] if word.startswith("--"))
        elif program == "python":
            assert (ROOT / words[0]).is_file()
        else:
            assert program in ELSEWHERE, f"{program}: not known; add why it is not started"


def assert_known(words):
    """The program takes these words, and the settings that they make are valid."""
    name, *rest = words
    command = PROGRAM.commands[name]
    with click.Context(command, info_name=name) as context:
        values, left_over, _ = command.make_parser(context).parse_args(rest)
    assert not left_over
    values = {key: value for key, value in values.items() if isinstance(value, str | list)}
    if name not in ("run", "compare", "leaderboard", "efficiency", "settings") or "resume" in values:
        return
    overrides = dict(parse_assignment(value) for value in values.get("set_", []))
    for short, key in SHORT.items():
        if short in values:
            overrides |= with_options(key, parse_assignment(f"x={values[short]}")[1])
    source = values.get("source", "mnist")
    assert_valid(source, overrides)
    for method in read_methods(values.get("algorithms")) if name == "leaderboard" else ():
        assert_valid(source, {**overrides, **with_options("learning.algorithm", method)})
    for key, several in variations(values.get("vary")).items():
        for value in several:
            assert_valid(source, overrides | with_options(key, value))


def assert_valid(source, overrides):
    if source not in PRESETS:
        source = "mnist"  # a reader's own file or run: its overrides can be checked all the same
    settings = load(source, overrides)
    if settings.policy.name != "uniform" or settings.policy.options:
        find_policy(settings.policy.name, **settings.policy.options)
    find_algorithm(settings.learning)


def test_a_wrong_command_is_noticed():
    assert_known(["run", "mnist", "--set", "cell.bandwidth_hz=2e7"])
    for words in (["run", "--sett", "a=b"], ["view", "a", "b"]):
        with pytest.raises((click.UsageError, AssertionError)):
            assert_known(words)
    for words in (["run", "--set", "cell.bandwith_hz=2e7"], ["run", "--policy", "duel"]):
        with pytest.raises(InputError):
            assert_known(words)
