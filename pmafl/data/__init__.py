"""Where data comes from and how it is split over devices. Numpy only; nothing here imports torch."""

from pmafl.data.dataset import Dataset, Reading, Scaling
from pmafl.data.fetch import cache_directory
from pmafl.data.known import DATASETS, KNOWN, Known
from pmafl.data.loading import load
from pmafl.data.own import from_arrays
from pmafl.data.partition import Partition, split
from pmafl.data.splitting import known_data, load_data, reading_of, split_data
from pmafl.data.stored import read_own

__all__ = [
    "DATASETS",
    "KNOWN",
    "Dataset",
    "Known",
    "Partition",
    "Reading",
    "Scaling",
    "cache_directory",
    "from_arrays",
    "known_data",
    "load",
    "load_data",
    "read_own",
    "reading_of",
    "split",
    "split_data",
]
