"""Small made-up data, and settings for it."""

from typing import Any

import numpy as np
from torch import Tensor

from pmafl.data.dataset import Dataset
from pmafl.data.partition import Partition
from pmafl.learning.method import LearningState
from pmafl.learning.task import LearningTask
from pmafl.settings import LearningSettings, load

SHAPES = {"mlp": (1, 28, 28), "cnn": (3, 32, 32)}
SMALLEST = {"cnn": (3, 16, 16)}  # that the network takes


def learning(model: str = "mlp", **changes: Any) -> LearningSettings:
    """Settings of the model's preset, but full batches with momentum unless told otherwise."""
    preset = {"mlp": "mnist", "cnn": "cifar10"}.get(model, "mnist")
    changes = {"model": model, "batch_size": 0, "momentum": 0.9, **changes}
    overrides = {f"learning.{key}": value for key, value in changes.items()}
    return load(preset, overrides).learning


def dataset(shape: tuple[int, ...] = (1, 28, 28), train: int = 120, test: int = 60) -> Dataset:
    """Images whose brightness depends on their class, so that there is something to learn."""
    rng = np.random.default_rng(5)
    patterns = rng.integers(0, 200, (10, *shape))

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(count) % 10
        noise = rng.integers(0, 56, (count, *shape))
        return (patterns[y] + noise).astype(np.uint8), y.astype(np.int64)

    (x_train, y_train), (x_test, y_test) = draw(train), draw(test)
    mean = (x_train / 255).mean(axis=(0, 2, 3)).astype(np.float32)
    std = (x_train / 255).std(axis=(0, 2, 3)).astype(np.float32)
    names = tuple(str(number) for number in range(10))
    return Dataset("synthetic", x_train, y_train, x_test, y_test, 10, mean, std, names, "made up")


def partition(data: Dataset, devices: int = 4) -> Partition:
    """Unequal parts by class: device k holds the classes with remainder k."""
    train = [np.flatnonzero(data.y_train % devices == k)[k:] for k in range(devices)]
    return Partition(train, [np.flatnonzero(data.y_test % devices == k) for k in range(devices)])


def task(model: str = "mlp", seed: int = 3, devices: int = 4, **changes: Any) -> LearningTask:
    data = dataset(SMALLEST.get(model, (1, 28, 28)))
    return LearningTask(learning(model, **changes), data, partition(data, devices), seed)


def whole_model(made: LearningTask, state: LearningState, device: int) -> Tensor:
    """A device's personal model."""
    return made.method.personal(state.server, made.method.held(state, device))
