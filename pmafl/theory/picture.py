"""A picture of the bound against the loss."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pmafl.errors import InputError
from pmafl.plots import COLOURS, figure, save
from pmafl.theory.assessment import Assessment

LINES = ("-", "--")


def draw_bound(assessment: Assessment) -> Figure:
    """Measured training loss as points, the bound of every schedule as a line, on a logarithmic scale."""
    drawing, axes = figure(width=7, height=4.5)
    place, found = axes[0, 0], assessment.found
    for colour, promise in zip(COLOURS[1:] * len(assessment.promises), assessment.promises, strict=False):
        for line, (form, losses) in zip(LINES, promise.losses.items(), strict=False):
            shown = np.where(np.isfinite(losses) & (losses > 0), losses, np.nan)
            label = f"{promise.name}, {form}"
            place.plot(np.arange(len(losses)), shown, linestyle=line, color=colour, label=label)
    place.axhline(found.losses[0], color="0.6", linewidth=1, label="loss at the start: above is vacuous")
    place.plot(found.rounds, found.losses, "o", color=COLOURS[0], label="measured training loss")
    place.set(xlabel="round", ylabel="global training loss", yscale="log", title="Convergence bound")
    place.legend(fontsize="small")
    return drawing


def save_bound(assessment: Assessment, directory: Path) -> Path:
    """Write ``plots/bound.png`` in the run directory."""
    folder = directory / "plots"
    try:
        folder.mkdir(exist_ok=True)
        return save(draw_bound(assessment), folder / "bound.png")
    except OSError as error:
        raise InputError(f"{folder / 'bound.png'}: cannot be written ({error.strerror})") from None
