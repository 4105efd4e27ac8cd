"""A page as one file: Bokeh's script from its Python package, ours, and the data, with nothing to fetch.

The data are base64 inside the page, and our scripts show what is in them as text, so that no name that a
person gave can become part of the page's code. A policy in the page forbids it every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from bokeh.resources import Resources

from pmafl.page.packing import as_text, pack

SCRIPTS = {
    "run": ("run-data.js", "run-round.js", "run-story.js", "run.js"),
    "comparison": ("comparison.js",),
    "results": ("results.js",),
    "plan": ("plan.js",),
}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:; connect-src {connect}">
<title>pmafl</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
</head>
<body>
<header>
<div class="head"><div><h1 id="name"></h1><p id="line" class="soft"></p></div>
<button type="button" id="look">dark look</button></div>
<p id="trouble" role="alert" hidden></p>
<p id="live" role="status" class="soft" hidden></p>
<div id="cards"></div>
<div id="notes" class="notes" hidden></div>
</header>
<main>
{body}
</main>
<footer><p class="soft">Made by pmafl with Bokeh. This file is complete: it loads nothing.</p></footer>
<script>
{bokeh}
</script>
<script type="text/plain" id="data">{data}</script>
<script>
{scripts}
page.begin();
page.embedded().then({opener}).catch(page.fail);
</script>
</body>
</html>
"""


def render(kind: str, data: Mapping[str, Any], live: bool = False) -> str:
    """The page of a kind (`run`, `comparison`, ...), which is a body and a script, with its data.

    A live page may ask the server that it came from for more.
    """
    scripts = map(_part, ("page.js", *SCRIPTS[kind], *(["live.js"] if live else [])))
    return PAGE.format(
        connect="'self'" if live else "'none'",
        style=_part("page.css"),
        body=_part(f"{kind}.html"),
        bokeh=_bokeh(),
        data=as_text(pack(data)),
        scripts="\n".join(scripts),
        opener=f"{kind}.live" if live else f"{kind}.open",
    )


@cache
def _part(name: str) -> str:
    return resources.files("pmafl.page").joinpath(name).read_text(encoding="utf-8")


@cache
def _bokeh() -> str:
    return "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)
