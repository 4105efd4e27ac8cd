"""Personalisation layers on top of shared ones.

Arivazhagan, Aggarwal, Singh, Choudhary: Federated learning with personalization layers.
arXiv 1912.00818, 2019.
"""

from pmafl.learning.algorithms.base import Algorithm
from pmafl.learning.algorithms.pma import pma
from pmafl.settings import LearningSettings


def fedper(learning: LearningSettings) -> Algorithm:
    """`pma` under the name by which many know it, to the bit."""
    return pma(learning)
