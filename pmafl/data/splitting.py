"""Who holds what under a run's settings."""

from pmafl.data.dataset import Dataset
from pmafl.data.known import Known
from pmafl.data.partition import Partition, split
from pmafl.settings import Settings
from pmafl.spreads import draw_samples
from pmafl.streams import stream


def split_data(settings: Settings, dataset: Dataset | Known) -> Partition:
    """The split; device sizes are the same with and without the files."""
    seed, devices, choice = settings.run.seed, settings.fleet.devices, settings.data
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
    )
