"""Boxes and arrows for the figures of the site, drawn like its curves."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from pmafl.plots import COLOURS, STYLE

plt.rcParams.update(STYLE)
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY = COLOURS[:6]


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty sheet, in units of about a line of text."""
    sheet, axes = plt.subplots(figsize=(width / 10, height / 10), layout="constrained")
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")
    return sheet, axes


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str = BLUE) -> None:
    """A box with its lower left corner at x, y."""
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.8",
            facecolor=colour + "22",
            edgecolor=colour,
        )
    )
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9)


def arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], text: str = "", above: float = 1.0
) -> None:
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": "0.35", "shrinkA": 2, "shrinkB": 2}
    )
    if text:
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + above)
        axes.text(*middle, text, ha="center", va="center", fontsize=8, color="0.25")
