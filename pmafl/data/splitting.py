"""A run's data and who holds what of them, under its settings."""

from pmafl.data.dataset import Dataset, Reading
from pmafl.data.known import KNOWN, Known
from pmafl.data.loading import load
from pmafl.data.partition import Partition, split
from pmafl.errors import InputError
from pmafl.settings import DataSettings, Settings
from pmafl.spreads import draw_samples
from pmafl.streams import stream


def reading_of(choice: DataSettings) -> Reading:
    """How a user's own data are to be read."""
    return Reading(choice.layout, choice.task, choice.target, choice.client)


def load_data(choice: DataSettings) -> Dataset:
    """The data set that the settings name."""
    return load(choice.dataset, choice.directory, reading_of(choice))


def known_data(choice: DataSettings) -> Dataset | Known:
    """What is known of the data set that the settings name, without its files where that is possible."""
    return KNOWN.get(choice.dataset) or load_data(choice)


def split_data(settings: Settings, dataset: Dataset | Known) -> Partition:
    """The split; device sizes are the same with and without the files."""
    seed, devices, choice = settings.run.seed, settings.fleet.devices, settings.data
    if dataset.regression and choice.partition in ("shards", "dirichlet"):
        raise InputError(
            f"data.partition = {choice.partition!r}: splits by class, but {dataset.name!r} has values to "
            f"predict; choose iid or natural"
        )
    train_labels, test_labels = dataset.labels()
    return split(
        train_labels,
        test_labels,
        devices,
        stream(seed, "partition"),
        partition=choice.partition,
        sizes=draw_samples(settings.fleet.samples, devices, stream(seed, "fleet", 0)),
        shards_per_device=choice.shards_per_device,
        dirichlet_alpha=choice.dirichlet_alpha,
        test_split=choice.test_split,
        owners=dataset.owners(),
        client_names=dataset.client_names,
    )
