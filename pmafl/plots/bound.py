"""A picture of the bound against the loss."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pmafl.errors import InputError
from pmafl.plots.style import COLOURS, STYLE, figure, save
from pmafl.theory.assessment import Assessment
from pmafl.theory.promise import PRINTED, SOUND

LINES = {SOUND: "-", PRINTED: "--"}


def draw_bound(assessment: Assessment) -> Figure:
    """Measured training loss as points, the bound of every schedule as lines."""
    drawing, ((axes,),) = figure(width=8.5, height=4)
    found = assessment.found
    for index, promise in enumerate(assessment.promises):
        colour = COLOURS[1 + index % (len(COLOURS) - 1)]
        for form, losses in promise.losses.items():
            shown = np.where(np.isfinite(losses) & (losses > 0), losses, np.nan)
            axes.plot(shown, linestyle=LINES[form], color=colour, label=f"{promise.name}, {form}")
    axes.axhline(found.losses[0], color="0.6", linewidth=1, label="loss at the start: above is vacuous")
    axes.plot(found.rounds, found.losses, "o", color=COLOURS[0], label="measured training loss")
    low, high = axes.dataLim.intervaly
    axes.set(xlabel="round", ylabel="global training loss", title="Convergence bound")
    axes.set_yscale("log" if high > 10 * low else "linear")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    drawing.legend(loc="outside right center")
    return drawing


def save_bound(assessment: Assessment, directory: Path) -> Path:
    """Write ``plots/bound.png`` in the run directory."""
    path = directory / "plots" / "bound.png"
    try:
        path.parent.mkdir(exist_ok=True)
        with mpl.rc_context(STYLE):
            return save(draw_bound(assessment), path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
