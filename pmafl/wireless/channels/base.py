"""What a channel model is: the power gains of a round, the law they follow, and what it must remember.

A model is made from a `Site` and its options (``cell.options``) and gives a `Channel`. What has to survive to
the next round, for fading that is correlated over time, is a mapping from names to arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmafl.settings import CellSettings
from pmafl.wireless.problem import Array

State = dict[str, Array]
Quantile = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Site:
    """What a model may know of the cell.

    Attributes:
        cell: the settings.
        distance_m: of each device to the server.
        path_gain: what the path loss leaves, one entry per device.
    """

    cell: CellSettings
    distance_m: Array
    path_gain: Array

    @property
    def devices(self) -> int:
        return int(self.path_gain.size)


def _nothing(rng: np.random.Generator) -> State:
    return {}


@dataclass(frozen=True, eq=False)
class Channel:
    """A channel model.

    Attributes:
        mean_gain: of each device, over all rounds.
        gains: gives the power gains of a round, and the state after it, from the state before it, the round's
            number and the round's own generator.
        law: what a planning policy may know: as many equally likely factors of the mean gain as asked for.
        start: the state before the first round.
    """

    mean_gain: Array
    gains: Callable[[State, int, np.random.Generator], tuple[Array, State]]
    law: Callable[[int], Array]
    start: Callable[[np.random.Generator], State] = _nothing


def memoryless(
    mean_gain: Array, draw: Callable[[int, np.random.Generator], Array], quantile: Quantile
) -> Channel:
    """Rounds that are independent of each other.

    Args:
        mean_gain: of each device.
        draw: as many factors of it as there are devices, of mean 1.
        quantile: of the factors, for levels between 0 and 1.
    """

    def gains(state: State, round_index: int, rng: np.random.Generator) -> tuple[Array, State]:
        return mean_gain * draw(mean_gain.size, rng), state

    return Channel(mean_gain, gains, lambda count: quantile(middles(count)))


def middles(count: int) -> Array:
    """The levels in the middle of `count` equally likely classes."""
    levels: Array = (np.arange(count) + 0.5) / count
    return levels
