"""Pictures for README.md: the page of a run as a browser shows it, and what comes out of the runs.

    python docs/screenshots.py runs/demo

writes ``docs/page.png`` and ``docs/page-dark.png`` with headless Chromium, and ``docs/outcome.png``
from ``results/fig3-mnist.csv`` and the table in ``docs/efficiency.md``.
"""

import csv
import re
import shutil
import sys
import time
from pathlib import Path

import matplotlib as mpl

from pmafl.plots import COLOURS, STYLE, figure, save

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
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


@mpl.rc_context(STYLE)
def draw_outcome() -> Path:
    """PMA beside the other algorithms, and policies beside the bound that no schedule exceeds."""
    drawing, axes = figure(columns=2, width=5.6, height=3.6)
    _algorithms(axes[0, 0])
    _policies(axes[0, 1])
    return save(drawing, DOCS / "outcome.png")


def _algorithms(axes) -> None:
    names = {
        "pma": "PMA",
        "fedrep, double work": "FedRep, double work",
        "fedrep, equal work": "FedRep, equal work",
        "local": "local only",
        "fedprox": "FedProx",
        "fedavg": "FedAvg",
    }
    with (RESULTS / "fig3-mnist.csv").open(encoding="utf-8", newline="") as table:
        rows = [row for row in csv.DictReader(table) if row["value"].startswith("10 ")]
    for index, (method, label) in enumerate(names.items()):
        mine = [row for row in rows if row["method"] == method]
        rounds = [float(row["round"]) for row in mine]
        mean = [100 * float(row["accuracy_mean"]) for row in mine]
        half = [100 * float(row["accuracy_half_width"] or 0) for row in mine]
        colour = COLOURS[index]
        axes.plot(rounds, mean, color=colour, linewidth=2.4 if method == "pma" else 1.4, label=label)
        low, high = ([m + sign * h for m, h in zip(mean, half, strict=True)] for sign in (-1, 1))
        axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    title = "MNIST, two classes per device, 10 of 100 devices per round"
    axes.set(xlabel="round", ylabel="test accuracy (%)", ylim=(40, 100), title=title)
    axes.legend(loc="lower right", fontsize=9)


def _policies(axes) -> None:
    """The first table of docs/efficiency.md; bold there means that a device broke its budget."""
    text = (DOCS / "efficiency.md").read_text(encoding="utf-8")
    lines = text[text.index("| mnist |") :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    wanted = (
        "steady",
        "dual",
        "dual, hard budget",
        "set-expansion",
        "set-expansion, hard budget",
        "ocean, f_max",
    )
    shown = [row for row in cells if row[0] in wanted]
    shown.sort(key=lambda row: float(re.match(r"[\d.]+", row[1])[0]))
    white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    for place, row in enumerate(shown):
        broke = "**" in row[5]
        share = float(re.match(r"[\d.]+", row[1])[0])
        colour = COLOURS[1] if broke else COLOURS[0]
        axes.barh(place, share, color=colour, hatch="//" if broke else None, edgecolor="white", linewidth=0)
        axes.text(2, place, f"{share:.1f}%", va="center", fontsize=9, bbox=white)
    axes.axvline(100, color="black", linestyle="--", linewidth=1)
    axes.set_yticks(range(len(shown)), [row[0] for row in shown])
    axes.set(xlabel="samples scheduled, of the bound (%)", xlim=(0, 103))
    axes.set_title("Policies; hatched: devices broke their budgets")
    axes.grid(axis="y", visible=False)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("error: give a run directory that has a page.html, such as runs/demo")
    page_html = Path(sys.argv[1]) / "page.html"
    if not page_html.is_file():
        sys.exit(f"error: {page_html} is not there; pmafl view {sys.argv[1]} writes it")
    for path in [draw_outcome(), *photograph(page_html)]:
        print(path)


if __name__ == "__main__":
    main()
