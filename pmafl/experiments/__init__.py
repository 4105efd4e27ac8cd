"""The paper's figures, one file each, and the table of its claims.

A figure declares its curves; running them, drawing and writing is common to all (`study.py`, `drawing.py`).
"""

from importlib import import_module
from typing import Any

FIGURES = ("fig2", "fig3", "fig4", "fig5", "fig6", "fig7")


def figure_module(name: str) -> Any:
    """The module that declares a figure: its DATASETS, whether SCHEDULING matters, curves and draw."""
    return import_module(f"pmafl.experiments.{name}")
