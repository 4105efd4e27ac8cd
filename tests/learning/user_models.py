"""Networks and an algorithm as a user would write them, good and bad."""

import math

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


class Written(nn.Module):
    """A dense network whose steps are in the code of `forward`, as subclasses override it."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(784, 12), nn.Linear(12, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.within(self.body(x.flatten(1))))

    def within(self, x: Tensor) -> Tensor:
        return x.relu()


class FunctionalDropout(Written):
    def within(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x.relu(), 0.5, self.training)


class NoiseInTests(Written):
    def within(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


class FunctionalBatchNorm(Written):
    def within(self, x: Tensor) -> Tensor:
        return nn.functional.batch_norm(x, None, None, training=True) if self.training else x


class TwoInTraining(Written):
    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return (super().forward(x), x) if self.training else super().forward(x)


class Detached(Written):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class Shift(nn.Module):
    """Adds in place, as much as the test is to see."""

    def forward(self, x: Tensor) -> Tensor:
        return x.add_(1.0)


class SafeShift(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1.0


class CorrectedMean(nn.Module):
    """Takes off a running mean, corrected for its start as Adam's are: its counter matters."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.count += 1
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean())
        return x - self.mean / (1 - 0.9 ** self.count.clamp(min=1))


class LastSeen(nn.Module):
    """Keeps what no state_dict has, and uses it in training alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.tensor(0.0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen += 1
        return x


def functional_dropout(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return FunctionalDropout(classes)


def noise_in_tests(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return NoiseInTests(classes)


def functional_batch_norm(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return FunctionalBatchNorm(classes)


def functional_batch_norm_at_zero(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    module = FunctionalBatchNorm(classes)
    nn.init.zeros_(module.head.weight)
    return module


def two_in_training(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return TwoInTraining(classes)


def detached(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return Detached(classes)


def no_running_statistics(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 8), norm, nn.Linear(8, classes))


def normalised_dense(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.BatchNorm1d(8), nn.Linear(8, classes))


class OfRows(nn.Module):
    """A recurrent layer that draws between its layers, or attention that draws within."""

    def __init__(self, layer: nn.Module, classes: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(28, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, 0]
        x = self.layer(x)[0] if isinstance(self.layer, nn.LSTM) else self.layer(x, x, x)[0]
        return self.head(x.mean(1))


def lstm_with_dropout(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return OfRows(nn.LSTM(28, 28, 2, batch_first=True, dropout=0.5), classes)


def attention(input_shape: tuple[int, ...], classes: int, dropout: float = 0.3) -> nn.Module:
    return OfRows(nn.MultiheadAttention(28, 4, dropout=dropout, batch_first=True), classes)


def random_stem(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """A random member of no known kind, below dense layers."""
    return nn.Sequential(nn.Conv2d(1, 2, 5, stride=4), Noise(), nn.Flatten(), nn.Linear(72, classes))


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x) if self.training else x


def shifts(input_shape: tuple[int, ...], classes: int, where: str, safe: bool = False) -> nn.Sequential:
    """Something in place at the input, or at the layer where a personal head begins; `safe`: a copy."""
    shift = SafeShift() if safe else Shift()
    head = nn.Sequential(HeadOf(shift, classes)) if where == "head" else nn.Linear(8, classes)
    first = [shift] if where == "input" else []
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(784, 8), head)


class HeadOf(nn.Linear):
    def __init__(self, before: nn.Module, classes: int) -> None:
        super().__init__(8, classes)
        self.before = before

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.before(x))


class ShiftsWhole(Written):
    """No chain, and it changes its input."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.add_(1.0))


class ShiftsCopy(Written):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + 1.0)


def shifts_whole(input_shape: tuple[int, ...], classes: int, safe: bool = False) -> nn.Module:
    return ShiftsCopy(classes) if safe else ShiftsWhole(classes)


def dropout_in_place(input_shape: tuple[int, ...], classes: int, safe: bool = False) -> nn.Sequential:
    """The random member that follows the part which is computed once, where a head is trained alone."""
    stem = nn.Conv2d(1, 4, 5, stride=4), nn.Dropout2d(0.5, inplace=not safe), nn.Conv2d(4, 4, 3), nn.Tanh()
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(64, classes))


def corrected_mean(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(CorrectedMean(), nn.Flatten(), nn.Linear(784, classes))


def last_seen(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(LastSeen(), nn.Flatten(), nn.Linear(784, classes))


class UnusedPart(Written):
    """The layer `spare` has no effect."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.spare = nn.Linear(3, 3)


def unused_part(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return UnusedPart(classes)


class OddState(nn.Module):
    """A constant whose values do not lie in order, and state that is no tensor."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("turned", torch.randn(5, inputs).t())
        self.head = nn.Linear(5, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.flatten(1) @ self.turned)

    def get_extra_state(self) -> dict[str, int]:
        return {"version": 1}

    def set_extra_state(self, state: dict[str, int]) -> None:
        assert state == {"version": 1}


def odd_state(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return OddState(math.prod(input_shape), classes)


def narrow_without_statistics(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    norm = nn.BatchNorm1d(1, track_running_stats=False)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1), norm, nn.Linear(1, classes))


class Doubled(nn.Sequential):
    """Not what its members are one after the other."""

    def forward(self, x):
        return 2 * super().forward(x)


def doubled(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return Doubled(nn.Flatten(), nn.Linear(784, 16), nn.Tanh(), nn.Linear(16, classes))
