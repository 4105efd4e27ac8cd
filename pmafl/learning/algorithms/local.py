"""No federation: every scheduled device trains its own model and uploads nothing."""

from pmafl.learning.algorithms.base import Algorithm, joint_training
from pmafl.settings import LearningSettings


def local(learning: LearningSettings) -> Algorithm:
    """The benchmark that any sharing has to beat."""
    return Algorithm("none", learning.iterations, joint_training(learning))
