"""How pictures look.

Colours are those of Okabe and Ito, which readers with any colour vision can tell apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pmafl.wireless import Array

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
STYLE: Any = {
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "pmafl",  # the same names in the same picture
}
UNDATED: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}  # the same bytes every time
MOST_COLUMNS = 2000  # more than a picture has pixels across


def figure(
    rows: int = 1, columns: int = 1, width: float = 5.5, height: float = 3.8, sharey: bool = False
) -> tuple[Figure, Any]:
    """A figure that needs no screen, with its axes as an array of shape (rows, columns)."""
    drawing = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing, drawing.subplots(rows, columns, squeeze=False, sharey=sharey)


def save(drawing: Figure, path: Path, *also: str) -> Path:
    """Write a picture, and beside it the same with other endings."""
    drawing.savefig(path)
    for ending in also:
        drawing.savefig(path.with_suffix(f".{ending}"), metadata=UNDATED.get(ending))
    return path


def columns(axes: Axes, first: int, tops: Array, bottoms: Array | None = None, **style: Any) -> None:
    """Bars that touch, at whole numbers from `first` on, as one outline: many single ones take minutes.

    Where there are more than a picture has room for, each column is the mean of neighbours.
    """
    starts = np.arange(0, tops.size, -(-tops.size // MOST_COLUMNS))
    edges = first - 0.5 + np.append(starts, tops.size)
    top, bottom = (
        np.add.reduceat(values, starts) / np.diff(edges)
        for values in (tops, np.zeros_like(tops) if bottoms is None else bottoms)
    )
    shape: dict[str, Any] = {"baseline": bottom, "fill": True}
    axes.stairs(top, edges, **shape | style)
