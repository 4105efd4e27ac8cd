"""One global model, which each device tunes on its own samples before it is tested.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-efficient learning of deep networks from
decentralized data. AISTATS 2017, for the global model. Yu, Bagdasaryan, Shmatikov: Salvaging federated
learning by local adaptation. arXiv 2002.04758, 2020, for tuning it.
"""

from typing import Literal

from pmafl.learning.algorithms.base import Algorithm, tuned
from pmafl.learning.algorithms.fedavg import fedavg
from pmafl.settings import LearningSettings


def fine_tune(
    learning: LearningSettings,
    tune: Literal["all", "head", "extractor"] = "all",
    tuning_iterations: int | None = None,
) -> Algorithm:
    """FedAvg, and then `tuning_iterations` on the part that `tune` names.

    By default it is tuned as long as in a round; 0 gives FedAvg.
    """
    return tuned(fedavg(learning), learning, tune, tuning_iterations)
