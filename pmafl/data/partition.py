"""Who holds what: splits a data set over devices and gives each device its test set.

A split first decides how many samples of each class a device holds (devices x classes counts), from the
class sizes alone, and then which ones. So a run without data gets the same device sizes from
``Known.labels()`` as a run with it. Samples that belong to clients can stay with them (`natural`). Pure
functions of labels, owners, sizes and a random generator.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pmafl.brief import brief
from pmafl.data.dataset import Pair
from pmafl.errors import InputError

IntArray = NDArray[np.int64]
Kind = Literal["shards", "iid", "dirichlet", "natural"]
TestSplit = Literal["all", "proportional"]
SMALL_SHARE = (
    1e-9  # lets a device whose Dirichlet draw is one class only take others when that one is used up
)
FITTING_STEPS = 100


@brief
@dataclass(frozen=True)
class Partition:
    """Indices of every device's training samples (disjoint) and test samples (shared), in ascending order.

    client: whose device it is, as a number of the data set's clients; None where samples are dealt out.
    client_names: what that client is called, one name per device; empty where samples are dealt out.
    note: how clients and devices were matched where their numbers differ, for people.
    """

    train: list[IntArray]
    test: list[IntArray]
    client: IntArray | None = None
    client_names: tuple[str, ...] = ()
    note: str = ""

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
    owners: Pair | None = None,
    client_names: Sequence[str] = (),
) -> Partition:
    """Split a data set over devices.

    `sizes` asks for exactly so many training samples per device. Without it every device gets N // K, except
    under shards, where the paper's rule gives about N / K, and for natural clients, who keep what they have.
    `owners` says whose the training and test samples are, as numbers in `client_names`.
    """
    if partition == "natural":
        return natural(owners, devices, rng, sizes, client_names)
    class_sizes = np.bincount(train_labels)
    equal = sizes is None
    sizes = _checked_sizes(sizes, devices, len(train_labels))
    if partition == "shards" and equal:
        counts = shards(class_sizes, devices, rng, shards_per_device)
    elif partition == "shards":
        counts = sized_shards(class_sizes, sizes, rng, shards_per_device)
    elif partition == "dirichlet":
        counts = dirichlet(class_sizes, sizes, rng, dirichlet_alpha)
    else:
        counts = iid(class_sizes, sizes, rng)
    train = deal(train_labels, counts, rng)
    return Partition(train, device_test_sets(test_labels, counts, rng, test_split))


def _checked_sizes(sizes: IntArray | None, devices: int, samples: int) -> IntArray:
    if devices > samples:
        raise InputError(f"fleet.devices = {devices}: the data set has only {samples} training samples")
    if sizes is None:
        return np.full(devices, samples // devices, dtype=np.int64)
    if len(sizes) != devices or np.min(sizes) < 1:
        raise InputError(f"fleet.samples: must be {devices} numbers of at least 1, one per device")
    if np.sum(sizes) > samples:
        raise InputError(
            f"fleet.samples: the devices ask for {np.sum(sizes)} samples together, but the training set has "
            f'{samples}; lower fleet.samples or fleet.devices, or set fleet.samples to "equal"'
        )
    return sizes


def shards(
    class_sizes: IntArray, devices: int, rng: np.random.Generator, shards_per_device: int = 2
) -> IntArray:
    """The paper's split: every class in 2K/10 equal shards, two shards at random to each device.

    In general shards_per_device * K / classes shards per class, which must be a whole number. All samples are
    dealt out, so device sizes differ as class sizes do; two shards of a device may be of one class.
    """
    classes = len(class_sizes)
    per_class, rest = divmod(devices * shards_per_device, classes)
    if rest:
        raise InputError(
            f"fleet.devices = {devices}: {devices} x {shards_per_device} shards do not divide evenly over "
            f"{classes} classes; make fleet.devices a multiple of "
            f"{classes // math.gcd(classes, shards_per_device)}, or set fleet.samples to a number"
        )
    if class_sizes.min() < per_class:
        raise InputError(
            f"fleet.devices = {devices}: needs {per_class} shards per class, but the smallest class has only "
            f"{class_sizes.min()} samples; use fewer devices or shards"
        )
    shard_sizes = (class_sizes[:, None] + np.arange(per_class)) // per_class
    dealt = rng.permutation(devices * shards_per_device)
    counts = np.zeros((devices, classes), dtype=np.int64)
    np.add.at(
        counts, (np.arange(len(dealt)) // shards_per_device, dealt // per_class), shard_sizes.ravel()[dealt]
    )
    return counts


def sized_shards(
    class_sizes: IntArray, sizes: IntArray, rng: np.random.Generator, shards_per_device: int = 2
) -> IntArray:
    """Shards of requested sizes: a device's samples come in equal parts, each from a class drawn at random.

    Classes are drawn in proportion to what they have left, and the largest devices draw first, so that little
    is lost to remainders too small for a shard.
    """
    left = class_sizes.copy()
    counts = np.zeros((len(sizes), len(left)), dtype=np.int64)
    for device in np.argsort(-sizes, kind="stable"):
        parts = (sizes[device] + np.arange(shards_per_device)) // shards_per_device
        for part in parts[parts > 0]:
            weights = np.where(left >= part, left, 0)
            if not weights.any():
                raise InputError(
                    f"fleet.samples: device {device} needs {part} samples of one class, but no class has "
                    f"more than {left.max()} left; ask for fewer samples or more shards per device"
                )
            label = rng.choice(len(left), p=weights / weights.sum())
            counts[device, label] += part
            left[label] -= part
    return counts


def iid(class_sizes: IntArray, sizes: IntArray, rng: np.random.Generator) -> IntArray:
    """Every device draws its samples at random from the whole data set, without replacement."""
    left = class_sizes.copy()
    counts = np.empty((len(sizes), len(left)), dtype=np.int64)
    for device, size in enumerate(sizes):
        counts[device] = rng.multivariate_hypergeometric(left, size, method="marginals")
        left -= counts[device]
    return counts


def dirichlet(class_sizes: IntArray, sizes: IntArray, rng: np.random.Generator, alpha: float) -> IntArray:
    """Every device draws class proportions from Dirichlet(alpha, ..., alpha), then its samples by them.

    Proportions that would ask more of a class than it has are scaled down first, for all devices alike; what
    a used-up class still owes, a device draws from the others. So this ends for any number of devices, with
    exactly the requested sizes, and no device is left with the remainders.
    """
    left = class_sizes.copy()
    counts = np.empty((len(sizes), len(left)), dtype=np.int64)
    proportions = rng.dirichlet(np.full(len(left), alpha), len(sizes)) + SMALL_SHARE
    for _ in range(FITTING_STEPS):
        proportions *= np.minimum(1.0, class_sizes / (sizes @ proportions))
        proportions /= proportions.sum(axis=1, keepdims=True)
    for device, size in enumerate(sizes):
        counts[device] = _draw(int(size), left, proportions[device], rng)
        left -= counts[device]
    return counts


def _draw(size: int, left: IntArray, proportions: NDArray[np.float64], rng: np.random.Generator) -> IntArray:
    """`size` samples by class, fractions rounded at random, none beyond what is left.

    Every pass but the last uses up a class.
    """
    counts = np.zeros_like(left)
    while (missing := size - counts.sum()) > 0:
        weights = np.where(left > counts, proportions, 0.0)
        expected = missing * weights / weights.sum()
        whole = np.floor(expected).astype(np.int64)
        fraction = expected - whole + SMALL_SHARE * weights
        rest = rng.multinomial(missing - whole.sum(), fraction / fraction.sum())
        counts = np.minimum(counts + whole + rest, left)
    return counts


def natural(
    owners: Pair | None,
    devices: int,
    rng: np.random.Generator,
    sizes: IntArray | None = None,
    client_names: Sequence[str] = (),
) -> Partition:
    """Every device is a client, with the client's own training and test samples.

    Of more clients than devices, some are drawn at random and the others left out. Of fewer, each has several
    devices, over which its training samples are dealt at random; all of them are tested on its test samples.
    """
    if owners is None:
        raise InputError(
            "data.partition = 'natural': the data set does not say whose its samples are; give an array "
            "'client' (data.client names another one), or choose shards, iid or dirichlet"
        )
    train, test = (by_owner(owner, int(owners[0].max()) + 1) for owner in owners)
    clients, note = len(train), ""
    names = client_names or tuple(map(str, range(clients)))
    if devices < clients:
        client = np.sort(rng.choice(clients, devices, replace=False))
        note = (
            f"{clients} clients, {devices} devices: {devices} clients drawn by run.seed, the others left out"
        )
    else:
        client = np.arange(devices) % clients
    if devices > clients:
        note = (
            f"{clients} clients, {devices} devices: device k has a part of client k mod {clients}'s samples"
        )
    turns = np.arange(devices) // clients if devices > clients else np.zeros(devices, np.int64)
    parts = np.bincount(client, minlength=clients)
    shuffled = {int(c): rng.permutation(train[c]) if parts[c] > 1 else train[c] for c in np.unique(client)}
    held = []
    for device, (c, turn) in enumerate(zip(client.tolist(), turns.tolist(), strict=True)):
        own = shuffled[c][turn :: parts[c]]
        if len(own) == 0:
            raise InputError(
                f"fleet.devices = {devices}: client {names[c][:40]!r} has {len(train[c])} training "
                f"samples for {parts[c]} devices; use fewer devices"
            )
        if sizes is not None:
            own = _some(own, int(sizes[device]), device, names[c], rng)
        held.append(np.sort(own))
    return Partition(held, [test[c] for c in client], client, tuple(names[c] for c in client), note)


def by_owner(owner: IntArray, owners: int) -> list[IntArray]:
    """The indices of what each owner has, in ascending order."""
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner, minlength=owners))[:-1])


def _some(own: IntArray, size: int, device: int, client: str, rng: np.random.Generator) -> NDArray[Any]:
    if size > len(own):
        raise InputError(
            f"fleet.samples: device {device} is to have {size} samples, but its client {client[:40]!r} has "
            f'{len(own)}; lower it, or set fleet.samples to "equal" to take all'
        )
    return rng.permutation(own)[:size]


def deal(labels: IntArray, counts: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Training indices of every device: `counts` (devices x classes) samples of each class, at random."""
    owner = np.full(len(labels), -1)
    for label, of_devices in enumerate(counts.T):
        members = rng.permutation(np.flatnonzero(labels == label))
        owner[members[: of_devices.sum()]] = np.repeat(np.arange(len(counts)), of_devices)
    by_owner = np.argsort(owner, kind="stable")[np.count_nonzero(owner < 0) :]
    return np.split(by_owner, np.cumsum(counts.sum(axis=1))[:-1])


def device_test_sets(
    test_labels: IntArray, counts: IntArray, rng: np.random.Generator, test_split: TestSplit = "all"
) -> list[IntArray]:
    """Test indices of every device: all of its classes, or the largest selection in its class proportions."""
    members = [np.flatnonzero(test_labels == label) for label in range(counts.shape[1])]
    available = np.array([len(indices) for indices in members])
    lacking = np.flatnonzero((available == 0) & counts.any(axis=0))
    if len(lacking):
        raise InputError(
            f"class {lacking[0]} has training samples but no test samples; each class needs both"
        )
    if test_split == "proportional":
        return [_proportional(row, members, available, rng) for row in counts]
    held = [tuple(np.flatnonzero(row)) for row in counts]
    # Devices with the same classes share one array: with 10,000 devices this is the difference of gigabytes.
    shared = {labels: np.flatnonzero(np.isin(test_labels, labels)) for labels in set(held)}
    return [shared[labels] for labels in held]


def _proportional(
    counts: IntArray, members: list[IntArray], available: IntArray, rng: np.random.Generator
) -> IntArray:
    held = np.flatnonzero(counts)
    scarcest = held[np.argmin(available[held] / counts[held])]
    take = np.maximum(counts * available[scarcest] // counts[scarcest], 1)
    chosen = [rng.choice(members[label], take[label], replace=False) for label in held]
    return np.sort(np.concatenate(chosen))


def class_counts(labels: IntArray, parts: list[IntArray], classes: int) -> IntArray:
    """How many samples of each class every device holds: devices x classes."""
    return np.stack([np.bincount(labels[indices], minlength=classes) for indices in parts])
