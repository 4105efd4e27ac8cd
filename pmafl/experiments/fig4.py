"""Figure 4: the same as Figure 3, on CIFAR-10."""

from pmafl.experiments.fig3 import SCHEDULING, curves, draw

DATASETS = ("cifar10",)

__all__ = ["DATASETS", "SCHEDULING", "curves", "draw"]
