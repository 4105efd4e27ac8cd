"""Pictures in one style, of one run and of a comparison of runs; that of the bound is in `plots.bound`."""

from pmafl.plots.comparison import plot_comparison, plot_curves
from pmafl.plots.frontier import Point, draw_frontier
from pmafl.plots.run import plot_run
from pmafl.plots.style import COLOURS, STYLE, figure, save

__all__ = [
    "COLOURS",
    "STYLE",
    "Point",
    "draw_frontier",
    "figure",
    "plot_comparison",
    "plot_curves",
    "plot_run",
    "save",
]
