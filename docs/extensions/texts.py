"""Texts that come from elsewhere: from the program, from its settings, from files of the repository.

A page asks for one with a comment on a line of its own, ``<!-- generated: commands -->`` or
``<!-- text of: SECURITY.md -->``. Links in it, and links of any page that leave `docs/`, lead to the page of
the site that has that file.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from sphinx.application import Sphinx

from extensions import commands, contracts, figures, modules, settings

REPOSITORY = Path(__file__).parents[2]
GENERATED: dict[str, Callable[..., str]] = {
    "commands": commands.text,
    "settings": settings.text,
    "figures": figures.text,
    "schedule": contracts.schedule,
    "plan": contracts.plan,
    "record": contracts.record,
    "module": modules.text,
    "names": modules.names,
}
# The pages of the site whose text is a file outside of docs/.
HOMES = {
    "SECURITY.md": "project/security",
    "CONTRIBUTING.md": "project/contributing",
    "CHANGELOG.md": "project/changelog",
    "README.md": "index",
    "results/README.md": "results/figures",
    "results/CLAIMS.md": "results/claims",
    "results/SENSITIVITY.md": "results/sensitivity",
    "results/leaderboard-mnist.md": "results/leaderboard-mnist",
    "results/leaderboard-watch.md": "results/leaderboard-watch",
}
MARK = re.compile(r"^<!-- (generated|text of): (.+?) -->$", flags=re.MULTILINE)
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")


def _filled(app: Sphinx, docname: str, source: list[str]) -> None:
    def fill(mark: re.Match[str]) -> str:
        kind, what = mark.groups()
        if kind == "generated":
            name, *words = what.split()
            return GENERATED[name](*words)
        path = REPOSITORY / what
        app.env.note_dependency(str(path))
        return _relinked(path.read_text("utf-8"), path, docname)

    page = Path(app.srcdir) / f"{docname}.md"
    source[0] = MARK.sub(fill, _relinked(source[0], page, docname))


def _relinked(text: str, path: Path, docname: str) -> str:
    """Links to files of the repository, as seen from a page of the site."""
    docs, folder = REPOSITORY / "docs", (REPOSITORY / "docs" / docname).parent

    def relink(link: re.Match[str]) -> str:
        if "://" in link[2]:
            return link[0]
        target = (path.parent / link[2]).resolve()
        if target.is_dir():
            target = target / "README.md"
        if not target.is_relative_to(REPOSITORY):
            return link[0]
        home = HOMES.get(target.relative_to(REPOSITORY).as_posix())
        if home:
            target = docs / f"{home}.md"
        return link[1] + os.path.relpath(target, folder) + link[3]

    return LINK.sub(relink, text)


def _write_schema(app: Sphinx, problem: Exception | None) -> None:
    if problem is None and app.builder.format == "html":
        from pmafl.scheduling import schema

        path = Path(app.outdir) / "reference" / "schedule.schema.json"
        path.write_text(json.dumps(schema(), indent=2) + "\n", "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _filled, priority=400)
    app.connect("build-finished", _write_schema, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
