"""Where data comes from and how it is split over devices. Numpy only; nothing here imports torch."""

from pmafl.data.dataset import Dataset, load
from pmafl.data.known import KNOWN, Known

__all__ = ["KNOWN", "Dataset", "Known", "load"]
