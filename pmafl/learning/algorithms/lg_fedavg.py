"""Local representations, a global head: the upper layers are shared, the lower ones are the device's own.

Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov, Morency: Think locally, act globally: federated
learning with local and global representations. NeurIPS workshop on federated learning 2019, arXiv 2001.01523.
"""

from pmafl.learning.algorithms.base import Algorithm, split_model, together
from pmafl.settings import LearningSettings


def lg_fedavg(learning: LearningSettings) -> Algorithm:
    """`pma` upside down: what it shares is kept, what it keeps is shared.

    The lower `learning.shared_layers` layers are kept: 0 gives FedAvg, all layers give local training.
    """
    return split_model(together(learning), learning.iterations, shared="head")
