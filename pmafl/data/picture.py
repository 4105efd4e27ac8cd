"""A picture of who holds what: classes against devices, the darker the more samples."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pmafl.data.partition import Partition, class_counts
from pmafl.errors import InputError

Labels = np.ndarray[tuple[int], np.dtype[np.int64]]


def draw_partition(
    partition: Partition, train_labels: Labels, class_names: tuple[str, ...], title: str
) -> Figure:
    """Training samples of every device by class, with each device's total above.

    One hue from light to dark reads the same with any colour vision and in grey; white is none at all.
    """
    counts = class_counts(train_labels, partition.train, len(class_names))
    devices, classes = counts.shape
    size = (float(np.clip(2 + 0.08 * devices, 6, 14)), 2.2 + 0.28 * min(classes, 40))
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    totals, cells = figure.subplots(2, 1, sharex=True, height_ratios=[1, 3])
    totals.stairs(counts.sum(axis=1), np.arange(devices + 1) - 0.5, fill=True, color="#0072B2")
    totals.set(ylabel="samples", title=title)
    totals.spines[["top", "right"]].set_visible(False)
    held = np.ma.masked_equal(counts.T, 0)
    blues = LinearSegmentedColormap.from_list("blues", ("#cfe3f5", "#0072B2", "#00203a"))
    image = cells.imshow(held, aspect="auto", origin="lower", cmap=blues, vmin=0)
    cells.set(xlabel="device", ylabel="class")
    cells.xaxis.set_major_locator(MaxNLocator(integer=True))
    if classes <= 40:
        cells.set_yticks(np.arange(classes), class_names)
        cells.hlines(np.arange(classes - 1) + 0.5, -0.5, devices - 0.5, color="0.85", linewidth=0.5)
    cells.set_xlim(-0.5, devices - 0.5)
    figure.colorbar(image, ax=cells, label="samples of the class", pad=0.01)
    return figure


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's ending names."""
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--plot {path}: cannot be written ({error}); name a .png, .pdf or .svg file"
        ) from None
