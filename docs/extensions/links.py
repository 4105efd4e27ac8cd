"""Every link of the finished site leads somewhere, and nothing is loaded from elsewhere; else it is a warning."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)


class _Page(HTMLParser):
    """The anchors of a page, and what it links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            elif name == "href" and value and tag == "a":
                self.links.add(value)
            elif name in ("src", "href") and value:
                self.loaded.add(value)


def broken_links(site: Path) -> list[str]:
    """A line per link that leads nowhere, and per thing that is loaded from elsewhere."""
    pages = {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    found.append(f"{where} loads {link} from elsewhere")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{where} links to {link}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{where} links to {link}, but that page has no such part")
    return found


def _check(app: Sphinx, problem: Exception | None) -> None:
    if problem is None and app.builder.format == "html":
        for line in broken_links(Path(app.outdir).resolve()):
            LOG.warning(line, type="links")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
