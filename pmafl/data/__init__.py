"""Where data comes from and how it is split over devices. Numpy only; nothing here imports torch."""

from pmafl.data.dataset import Dataset
from pmafl.data.fetch import cache_directory
from pmafl.data.known import DATASETS, KNOWN, Known
from pmafl.data.loading import load
from pmafl.data.own import from_arrays, read_npz
from pmafl.data.partition import Partition, split
from pmafl.data.splitting import split_data

__all__ = [
    "DATASETS",
    "KNOWN",
    "Dataset",
    "Known",
    "Partition",
    "cache_directory",
    "from_arrays",
    "load",
    "read_npz",
    "split",
    "split_data",
]
