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

    NAME is mnist, fashion-mnist, cifar10, watch, a .npz or .csv file, a folder with a file per client
    (written with a slash), or package.module:callable.

    The split that --plot draws is that of a run with the same settings: --set fleet.devices=20,
    --set data.partition=dirichlet, --set run.seed=2 and so on.
    """
    if name is None:
        if plot or set_:
            raise InputError("--plot and --set need the NAME of a data set")
        _list_known()
        return
    from pmafl.data import KNOWN, load, reading_of
    from pmafl.settings import PRESETS
    from pmafl.settings import load as load_settings

    preset = name if name in PRESETS else "mnist"
    settings = load_settings(preset, assignments(set_) | {"data.dataset": name})
    dataset = load(name, settings.data.directory, reading_of(settings.data))
    typer.echo(
        f"{_summary(dataset)}\n  {'checksums' if name in KNOWN else 'values'} verified, from {dataset.source}"
    )
    for note in dataset.notes:
        typer.echo(f"  {note}")
    if plot:
        from pmafl.data import split_data
        from pmafl.data.picture import draw_partition, save_picture

        partition = split_data(settings, dataset)
        title = f"{name}: {settings.data.partition} over {settings.fleet.devices} devices"
        labels, names = dataset.labels()[0], dataset.class_names or ("all",)
        save_picture(draw_partition(partition, labels, names, title), plot)
        sizes = partition.sizes
        if partition.note:
            typer.echo(f"  {partition.note}")
        typer.echo(f"  {title}, {sizes.min()} to {sizes.max()} samples each; drawn in {plot}")


def _list_known() -> None:
    from pmafl.data import KNOWN, cache_directory

    for known in KNOWN.values():
        folder = cache_directory() / known.name
        fetched = all((folder / file).is_file() for file in known.checksums)
        typer.echo(f"{_summary(known)}\n  {f'in {folder}' if fetched else 'not fetched yet'}")


def _summary(dataset: "Dataset | Known") -> str:
    shape = " x ".join(map(str, dataset.input_shape))
    values = "1 value" if dataset.outputs == 1 else f"{dataset.outputs} values"
    targets = f"{values} to predict" if dataset.regression else f"{dataset.classes} classes"
    clients = f", of {len(dataset.client_names)} clients" if dataset.client_names else ""
    return (
        f"{dataset.name}: {dataset.train_samples} training and {dataset.test_samples} test samples "
        f"of {shape}, {targets}{clients}"
    )
