"""Who holds what: splits a data set over devices and gives each device its test set.

Pure functions of labels, sizes and a random generator. What a device's *size* is depends on the label counts
alone, never on the order of the samples, so a run without data gets the same sizes from ``Known.labels()``.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pmafl.errors import InputError

IntArray = NDArray[np.int64]
Kind = Literal["shards", "iid", "dirichlet"]
TestSplit = Literal["all", "proportional"]


@dataclass(frozen=True)
class Partition:
    """Indices of every device's training samples (disjoint) and test samples (shared), in ascending order."""

    train: list[IntArray]
    test: list[IntArray]

    @property
    def sizes(self) -> IntArray:
        """Training samples of every device, D in the paper."""
        return np.array([len(indices) for indices in self.train], dtype=np.int64)


def split(
    train_labels: IntArray,
    test_labels: IntArray,
    devices: int,
    rng: np.random.Generator,
    *,
    partition: Kind = "shards",
    sizes: IntArray | None = None,
    shards_per_device: int = 2,
    dirichlet_alpha: float = 0.5,
    test_split: TestSplit = "all",
) -> Partition:
    """Split a data set over devices.

    `sizes` asks for exactly so many training samples a device. Without it every device gets N // K, except
    under shards, which then follow the paper: all samples are dealt out, and sizes differ as the classes' do.
    """
    if partition == "shards" and sizes is None:
        train = shards(train_labels, devices, rng, shards_per_device)
    else:
        sizes = _checked_sizes(sizes, devices, len(train_labels))
        if partition == "shards":
            train = sized_shards(train_labels, sizes, rng, shards_per_device)
        elif partition == "dirichlet":
            train = dirichlet(train_labels, sizes, rng, dirichlet_alpha)
        else:
            train = iid(train_labels, sizes, rng)
    return Partition(train, device_test_sets(train_labels, test_labels, train, rng, test_split))


def _checked_sizes(sizes: IntArray | None, devices: int, samples: int) -> IntArray:
    if devices > samples:
        raise InputError(
            f"fleet.devices = {devices}: more than the {samples} training samples; each needs one"
        )
    if sizes is None:
        return np.full(devices, samples // devices, dtype=np.int64)
    if len(sizes) != devices or np.min(sizes) < 1:
        raise InputError(f"fleet.samples: needs {devices} numbers of at least 1, one a device")
    if np.sum(sizes) > samples:
        raise InputError(
            f"fleet.samples: the devices ask for {np.sum(sizes)} samples together, but the training set has "
            f"{samples}; ask for fewer"
        )
    return sizes


def shards(
    labels: IntArray, devices: int, rng: np.random.Generator, shards_per_device: int = 2
) -> list[IntArray]:
    """The paper's split: every class in 2K/10 equal shards at random, two shards at random to each device.

    In general shards_per_device * K / classes shards a class, which must be a whole number. A device holds at
    most `shards_per_device` classes.
    """
    members = _members(labels)
    per_class, rest = divmod(devices * shards_per_device, len(members))
    if rest:
        step = len(members) // np.gcd(len(members), shards_per_device)
        raise InputError(
            f"fleet.devices = {devices}: {devices} x {shards_per_device} shards do not divide evenly over "
            f"{len(members)} classes; make the number of devices a multiple of {step}, or set fleet.samples"
        )
    smallest = min(len(indices) for indices in members)
    if smallest < per_class:
        raise InputError(
            f"fleet.devices = {devices}: needs {per_class} shards a class, but the smallest class has only "
            f"{smallest} samples; use fewer devices or shards"
        )
    pieces = [piece for indices in members for piece in np.array_split(rng.permutation(indices), per_class)]
    dealt = rng.permutation(len(pieces)).reshape(devices, shards_per_device)
    return [np.sort(np.concatenate([pieces[i] for i in row])) for row in dealt]


def sized_shards(
    labels: IntArray, sizes: IntArray, rng: np.random.Generator, shards_per_device: int = 2
) -> list[IntArray]:
    """Shards of requested sizes: a device's samples come in equal parts, each from a class drawn at random.

    Classes are drawn in proportion to what they have left, the largest devices first, so that the split fails
    only when the classes are truly too small.
    """
    members = [rng.permutation(indices) for indices in _members(labels)]
    left = np.array([len(indices) for indices in members])
    train: list[IntArray] = [np.empty(0, np.int64)] * len(sizes)
    for device in np.argsort(-sizes, kind="stable"):
        parts = (sizes[device] + np.arange(shards_per_device)) // shards_per_device
        taken = []
        for part in parts[parts > 0]:
            weights = np.where(left >= part, left, 0)
            if not weights.any():
                raise InputError(
                    f"fleet.samples: device {device} needs {part} samples of one class, but no class has "
                    f'more than {left.max()} left; ask for fewer samples, or for "equal"'
                )
            chosen = rng.choice(len(left), p=weights / weights.sum())
            taken.append(members[chosen][left[chosen] - part : left[chosen]])
            left[chosen] -= part
        train[device] = np.sort(np.concatenate(taken))
    return train


def iid(labels: IntArray, sizes: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Every device draws its samples at random from the whole data set, without replacement."""
    ends = np.cumsum(sizes)
    order = rng.permutation(len(labels))
    return [np.sort(order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def dirichlet(labels: IntArray, sizes: IntArray, rng: np.random.Generator, alpha: float) -> list[IntArray]:
    """Every device draws class proportions from Dirichlet(alpha, ..., alpha), then its samples by them.

    When a class is used up, a device draws the rest from the others, so that this ends for any number of
    devices with exactly the requested sizes (Hsu et al. 2019, arXiv:1909.06335). The last devices may have to
    take what is left.
    """
    members = [rng.permutation(indices) for indices in _members(labels)]
    left = np.array([len(indices) for indices in members])
    train = []
    for size in sizes:
        take = _draw_counts(int(size), left, rng.dirichlet(np.full(len(left), alpha)), rng)
        train.append(
            np.sort(np.concatenate([m[n - t : n] for m, n, t in zip(members, left, take, strict=True)]))
        )
        left = left - take
    return train


def _draw_counts(
    size: int, left: IntArray, proportions: NDArray[np.float64], rng: np.random.Generator
) -> IntArray:
    """How many samples of each class: `size` in all, none beyond what is left. Every pass empties a class."""
    take = np.zeros_like(left)
    while (missing := size - take.sum()) > 0:
        open_classes = left > take
        weights = np.where(open_classes, proportions, 0.0)
        if not weights.sum() > 0:  # a small alpha puts everything on classes that are used up
            weights = (left - take).astype(np.float64)
        take = np.minimum(take + rng.multinomial(missing, weights / weights.sum()), left)
    return take


def device_test_sets(
    train_labels: IntArray,
    test_labels: IntArray,
    train: list[IntArray],
    rng: np.random.Generator,
    test_split: TestSplit = "all",
) -> list[IntArray]:
    """Every device's test samples: all of its classes, or the largest selection in its class proportions."""
    classes = int(max(train_labels.max(), test_labels.max())) + 1
    counts = class_counts(train_labels, train, classes)
    members = [np.flatnonzero(test_labels == label) for label in range(classes)]
    available = np.array([len(indices) for indices in members])
    lacking = np.flatnonzero((available == 0) & counts.any(axis=0))
    if len(lacking):
        raise InputError(
            f"class {lacking[0]} has training samples but no test samples; each class needs both"
        )
    if test_split == "proportional":
        return [_proportional(row, members, available, rng) for row in counts]
    shared: dict[bytes, IntArray] = {}  # devices with the same classes share one array: K may be large
    for row in counts > 0:
        if row.tobytes() not in shared:
            shared[row.tobytes()] = np.flatnonzero(row[test_labels])
    return [shared[row.tobytes()] for row in counts > 0]


def _proportional(
    counts: IntArray, members: list[IntArray], available: IntArray, rng: np.random.Generator
) -> IntArray:
    held = np.flatnonzero(counts)
    scarcest = held[np.argmin(available[held] / counts[held])]
    take = np.maximum(counts * available[scarcest] // counts[scarcest], 1)
    return np.sort(np.concatenate([rng.choice(members[label], take[label], replace=False) for label in held]))


def class_counts(labels: IntArray, parts: list[IntArray], classes: int) -> IntArray:
    """How many samples of each class every device holds: devices x classes."""
    return np.stack([np.bincount(labels[indices], minlength=classes) for indices in parts])


def _members(labels: IntArray) -> list[IntArray]:
    """The indices of every class in ascending order."""
    ends = np.cumsum(np.bincount(labels))
    return np.split(np.argsort(labels, kind="stable"), ends[:-1])
