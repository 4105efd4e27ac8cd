"""Networks and an algorithm as a user would write them, good and bad."""

from torch import Tensor, nn

from pmafl.learning.algorithms import Algorithm, split_model
from pmafl.settings import LearningSettings


def nested(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    features = nn.Sequential(nn.Conv2d(input_shape[0], 4, 3, stride=2), nn.GroupNorm(2, 4), nn.ReLU())
    return nn.Sequential(features, nn.Flatten(), nn.Linear(4 * 13 * 13, 8), nn.ReLU(), nn.Linear(8, classes))


def with_dropout(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, classes))


def dropout_before_relu(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.Dropout(), nn.ReLU(), nn.Linear(16, classes))


def small_cnn(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    first = (nn.Conv2d(input_shape[0], 4, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(4, 6, 3, padding=1), nn.MaxPool2d(2), nn.ReLU())
    dense = (nn.Linear(6 * 3 * 3, 12), nn.ReLU(), nn.Linear(12, classes))
    return nn.Sequential(*first, *second, nn.Flatten(), *dense)


def cnn_with_dropout(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    stem = (nn.Conv2d(input_shape[0], 4, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25))
    dense = (nn.Linear(4 * 6 * 6, 12), nn.ReLU(), nn.Dropout(0.4), nn.Linear(12, classes))
    return nn.Sequential(*stem, nn.Flatten(), *dense)


def linear(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, classes))


def deep(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    hidden = nn.Sequential(nn.Linear(784, 20), nn.ReLU(), nn.Linear(20, 12))
    return nn.Sequential(nn.Flatten(), hidden, nn.ReLU(inplace=True), nn.Linear(12, classes))


def without_bias(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 8, bias=False), nn.ReLU(), nn.Linear(8, classes))


def with_sigmoid(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.Sigmoid(), nn.Linear(8, classes))


def relu_last(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.ReLU(), nn.Linear(8, classes), nn.ReLU())


class Branches(nn.Module):
    """Two paths, so no order of layers; the head is registered first."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(12, classes)
        self.body_left = nn.Linear(784, 12)
        self.body_right = nn.Linear(784, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.head(self.body_left(x).relu() * self.body_right(x).sigmoid())


def branches(input_shape: tuple[int, ...], classes: int) -> Branches:
    return Branches(classes)


def tied(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    layer = nn.Linear(10, 10)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10), layer, nn.ReLU(), layer)


def batch_norm(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(784, classes))


def too_many_classes(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, classes + 1))


def wrong_input(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(100, classes))


def no_parameters(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(classes))


def frozen(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 8).requires_grad_(False), nn.Linear(8, classes))


def half_precision(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), Cast(), nn.Linear(784, classes).bfloat16())


class Cast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.bfloat16()


def fails(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    raise RuntimeError("no weights found\nlooked everywhere")


def fails_silently(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    raise NotImplementedError


def not_a_module(input_shape: tuple[int, ...], classes: int) -> str:
    return "network"


def one_step(learning: LearningSettings) -> Algorithm:
    return split_model(lambda engine, weights, samples, rng: engine.train(weights, samples, rng, 1), 1)
