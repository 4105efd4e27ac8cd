"""Networks and an algorithm as a user would write them, good and bad."""

import torch
from torch import Tensor, nn

from pmafl.learning import networks
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


class Named(nn.Linear):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": super().forward(x)}


def a_dict(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), Named(784, classes))


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


def smooth(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Without a kink, so that what is computed in two ways differs by rounding alone."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, classes)
    )


def small_and_normalised(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    layers = nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes)
    return nn.Sequential(nn.Flatten(), *layers)


def smooth_and_normalised(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    layers = nn.Linear(784, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 5), nn.GroupNorm(1, 5), nn.Tanh()
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(5, classes))


class Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x.flatten(1)).abs()


def with_spectrum(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(Spectrum(), nn.Linear(393, classes))


def all_frozen(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.Linear(8, classes)).requires_grad_(False)


class OneTable(nn.Module):
    """The same weights below and above."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Linear(784, 10)
        self.table = nn.Linear(10, classes)
        self.top = nn.Linear(10, classes)
        self.top.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.top(self.table(self.body(x.flatten(1))).relu())


def one_table(input_shape: tuple[int, ...], classes: int) -> OneTable:
    return OneTable(classes)


def small_resnet(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return networks._resnet(input_shape, classes, "batch", widths=(4, 8), blocks=1)


def normalised(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    features = nn.Conv2d(input_shape[0], 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU()
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(4 * 13 * 13, classes))


class OddBuffers(nn.Module):
    """A constant, a counter, and a sum that is replaced in every pass instead of changed."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor(0))
        self.sums = Sums()
        self.register_buffer("position", torch.arange(784.0).view(1, 28, 28) / 784)

    def forward(self, x: Tensor) -> Tensor:
        self.count += self.training
        return self.sums(x) + self.position


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.total = self.total + x.mean()
        return x


def odd_buffers(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(OddBuffers(), nn.Flatten(), nn.Linear(784, classes))


def double_statistics(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    sums = Sums()
    sums.total = sums.total.double()
    return nn.Sequential(sums, nn.Flatten(), nn.Linear(784, classes))


class AsksNumpy(nn.Module):
    """Decides by values that no graph of operations knows."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (2.0 if x.detach().numpy().sum() > 0 else 1.0)


def asks_numpy(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), AsksNumpy(), nn.Linear(64, classes))
