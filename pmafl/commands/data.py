"""`pmafl data`: fetch and verify a data set, or check one's own, and draw who holds what."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmafl.commands import SetOption, assignments
from pmafl.errors import InputError

if TYPE_CHECKING:
    from pmafl.data import Dataset, Known


def data(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw who holds what into a .png, .pdf or .svg file.")
    ] = None,
    set_: SetOption = None,
) -> None:
    """Fetch and verify a data set; without a NAME, list those that can be fetched.

    NAME is mnist, fashion-mnist, cifar10, a .npz file or package.module:callable.

    The split that --plot draws is that of a run with the same settings: --set fleet.devices=20,
    --set data.partition=dirichlet, --set run.seed=2 and so on.
    """
    if name is None:
        if plot or set_:
            raise InputError("--plot and --set need the NAME of a data set")
        _list_known()
        return
    from pmafl.data import KNOWN, load
    from pmafl.settings import load as load_settings

    settings = load_settings("mnist", assignments(set_) | {"data.dataset": name})
    dataset = load(name, settings.data.directory)
    typer.echo(
        f"{_summary(dataset)}\n  {'checksums' if name in KNOWN else 'values'} verified, from {dataset.source}"
    )
    if plot:
        from pmafl.data import split_data
        from pmafl.data.picture import draw_partition, save_picture

        partition = split_data(settings, dataset)
        title = f"{name}: {settings.data.partition} over {settings.fleet.devices} devices"
        save_picture(draw_partition(partition, dataset.y_train, dataset.class_names, title), plot)
        sizes = partition.sizes
        typer.echo(f"  {title}, {sizes.min()} to {sizes.max()} samples each; drawn in {plot}")


def _list_known() -> None:
    from pmafl.data import KNOWN, cache_directory

    for known in KNOWN.values():
        folder = cache_directory() / known.name
        fetched = all((folder / file).is_file() for file in known.md5)
        typer.echo(f"{_summary(known)}\n  {f'in {folder}' if fetched else 'not fetched yet'}")


def _summary(dataset: "Dataset | Known") -> str:
    shape = " x ".join(map(str, dataset.input_shape))
    return (
        f"{dataset.name}: {dataset.train_samples} training and {dataset.test_samples} test samples "
        f"of {shape}, {dataset.classes} classes"
    )
