"""The figures that `pmafl reproduce` drew, as many as are kept in `results/`."""

import importlib
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"
DATA = {
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "cifar10-stated": "CIFAR-10, with the training that the paper states",
}


def text() -> str:
    """A heading, what it shows, and the picture, for each."""
    parts = []
    for path in sorted(RESULTS.glob("fig*.png")):
        figure, _, data = path.stem.partition("-")
        said = (importlib.import_module(f"pmafl.experiments.{figure}").__doc__ or "").splitlines()[0]
        shows = said.partition(": ")[2]
        title = f"Figure {figure.removeprefix('fig')}, {DATA.get(data, data)}"
        parts.append(
            f"### {title}\n\n{shows[:1].upper()}{shows[1:]}\n\n![{title}](../../results/{path.name})"
        )
    return "\n\n".join(parts)
