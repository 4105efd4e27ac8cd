"""Several sets of devices and their allocations, in flat arrays, so that all are solved at once.

An allocator is a function of the devices' frontiers, the sets and the weight of each member's energy; it
needs sets that are feasible (their minimum shares sum to at most 1) and gives an `Allocation`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pmafl.allocation.frontier import Frontier
from pmafl.wireless import Array, Index, Mask


@dataclass(frozen=True, eq=False)
class Sets:
    """Members of `count` sets: entry i says that `device[i]` belongs to set `owner[i]`."""

    device: Index
    owner: Index
    count: int

    @classmethod
    def from_masks(cls, masks: Mask) -> "Sets":
        """Sets given as rows of a mask, shape (sets, devices)."""
        owner, device = np.nonzero(masks)
        return cls(device, owner, len(masks))

    @classmethod
    def prefixes(cls, order: Index, lengths: Sequence[int]) -> "Sets":
        """The first devices of one order, as many as each length says."""
        device = np.concatenate([order[:length] for length in lengths])
        return cls(device, np.repeat(np.arange(len(lengths)), lengths), len(lengths))

    @property
    def size(self) -> Index:
        """Number of members of each set."""
        return np.bincount(self.owner, minlength=self.count)

    def members(self, chosen: Mask) -> "Sets":
        """The same sets with only the chosen members."""
        return Sets(self.device[chosen], self.owner[chosen], self.count)

    def sum(self, values: Array) -> Array:
        """Sum over the members of each set."""
        return np.bincount(self.owner, values, self.count).astype(np.float64, copy=False)

    def largest(self, values: Array) -> Array:
        """Largest value among the members of each set; 0 for an empty one."""
        result = np.full(self.count, -np.inf)
        np.maximum.at(result, self.owner, values)
        return np.where(np.isfinite(result), result, 0.0)


@dataclass(frozen=True, eq=False)
class Allocation:
    """What each member of each set does; one entry per member, except `cost` and `log_price`: one per set."""

    sets: Sets
    share: Array
    compute_fraction: Array  # of the deadline
    upload_fraction: Array
    energy_j: Array
    cost: Array  # weighted energy of the set
    log_price: Array  # log of what the set would save per share of band, where known

    def only(self, index: int) -> "Allocation":
        """The allocation of one of the sets."""
        here = self.sets.owner == index
        device = self.sets.device[here]
        return Allocation(
            Sets(device, np.zeros_like(device), 1),
            self.share[here],
            self.compute_fraction[here],
            self.upload_fraction[here],
            self.energy_j[here],
            self.cost[[index]],
            self.log_price[[index]],
        )

    def named(self, device: Index) -> "Allocation":
        """The same for devices under other numbers: `device[i]` instead of i."""
        return replace(self, sets=replace(self.sets, device=device[self.sets.device]))


Allocator = Callable[[Frontier, Sets, Array], Allocation]


def count_fitting(min_share: Array) -> int:
    """How many devices, in order, fit the band together."""
    return int(np.searchsorted(np.cumsum(min_share), 1.0, side="right"))


def energy_weights(queue_j: Array, sets: Sets, spare_energy: bool = True) -> Array:
    """The weight of each member's energy: its queue, or 1 in a set where all queues are empty.

    Queues of 0 make energy free, and a set of such devices would be run at full clock and full power
    although the band has room to spare. With equal weights the objective is the same and far less is
    spent. Without `spare_energy` weights are the queues whatever they are, as the paper has it.
    """
    weight = queue_j[sets.device]
    return np.where(sets.sum(weight)[sets.owner] > 0, weight, 1.0) if spare_energy else weight
