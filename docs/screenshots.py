"""The picture of README.md: the page of a run as a browser shows it.

    python docs/screenshots.py runs/demo

writes ``docs/page.png`` and ``docs/page-dark.png`` with headless Chromium.
"""

import shutil
import sys
import time
from pathlib import Path

DOCS = Path(__file__).parent
WIDTH, HEIGHT = 1400, 1010  # pixels; the map, the round's division and the controls
PATIENCE_S = 120


def photograph(page_html: Path) -> list[Path]:
    """The page after two thirds of its rounds, with a device chosen, in both looks."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("error: chromium is not installed; as root: apt-get install chromium")
    pictures = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for look, name in (("light", "page.png"), ("dark", "page-dark.png")):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=look)
            page.goto(page_html.resolve().as_uri())
            limit_s = time.monotonic() + PATIENCE_S
            while not page.evaluate("document.documentElement.dataset.ready"):
                assert time.monotonic() < limit_s, f"{page_html} is not drawn"
                time.sleep(0.1)
            page.evaluate("run.go(Math.floor((2 * run.part.frames.length) / 3))")
            colour = page.evaluate("run.kinds.accuracy ? 'accuracy' : 'energy'")
            page.select_option("#colour", colour)
            page.wait_for_timeout(1000)  # two frames are enough where nothing else runs
            pictures.append(DOCS / name)
            page.screenshot(path=pictures[-1])
        browser.close()
    return pictures


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("error: give a run directory that has a page.html, such as runs/demo")
    page_html = Path(sys.argv[1]) / "page.html"
    if not page_html.is_file():
        sys.exit(f"error: {page_html} is not there; pmafl view {sys.argv[1]} writes it")
    for path in photograph(page_html):
        print(path)


if __name__ == "__main__":
    main()
