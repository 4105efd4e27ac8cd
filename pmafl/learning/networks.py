"""Ready networks beside the paper's two, in plain torch.

A network is a function of the shape of a sample and the number of classes; more arguments are options that
the settings may give. Layers are in order, so each can be split by layers, and parameters are named as in
torchvision, so patterns such as ``layer1.*`` say what one expects. This file needs torch alone: an exported
model takes a copy of it along.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from torch import Tensor, nn

Shape = tuple[int, ...]
Norm = Literal["batch", "group"]
GROUPS = 2  # as in most federated work with GroupNorm


def chain(layers: Iterable[Mapping[str, Any]]) -> nn.Sequential:
    """A chain of dense layers, and convolutions with pooling before them, a ReLU after each but the last.

    A layer is ``{"inputs", "outputs"}``, with ``"kernel"`` and ``"pool"`` if it is a convolution. Pooling
    comes before ReLU: the same function, a quarter of the work.
    """
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    layers = list(layers)
    for number, layer in enumerate(layers, start=1):
        if "kernel" in layer:
            modules[f"layer{number}"] = nn.Conv2d(layer["inputs"], layer["outputs"], layer["kernel"])
            modules[f"pool{number}"] = nn.MaxPool2d(layer["pool"])
        else:
            if "flatten" not in modules:
                modules["flatten"] = nn.Flatten()
            modules[f"layer{number}"] = nn.Linear(layer["inputs"], layer["outputs"])
        if number < len(layers):
            modules[f"relu{number}"] = nn.ReLU()
    return nn.Sequential(modules)


def resnet8(input_shape: Shape, classes: int, norm: Norm = "batch") -> nn.Sequential:
    """He, Zhang, Ren, Sun: Deep residual learning. CVPR 2016; the smallest of its CIFAR-10 networks.

    Three blocks of 16, 32 and 64 channels; 78,042 parameters on CIFAR-10.
    """
    return _resnet(input_shape, classes, norm, widths=(16, 32, 64), blocks=1)


def resnet18(input_shape: Shape, classes: int, norm: Norm = "batch") -> nn.Sequential:
    """The same paper's network of eight blocks, as usual for small images: no pooling at the start.

    64 to 512 channels; 11,173,962 parameters on CIFAR-10.
    """
    return _resnet(input_shape, classes, norm, widths=(64, 128, 256, 512), blocks=2)


def _resnet(input_shape: Shape, classes: int, norm: Norm, widths: Shape, blocks: int) -> nn.Sequential:
    if len(input_shape) != 3:
        raise ValueError(f"it needs images of shape (channels, height, width), not {input_shape}")
    channels = widths[0]
    modules: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(input_shape[0], channels, 3, padding=1, bias=False),
        bn1=_normalisation(norm, channels),
        relu=nn.ReLU(),
    )
    for number, width in enumerate(widths, start=1):
        stage = []
        for index in range(blocks):
            stride = 2 if number > 1 and index == 0 else 1
            stage.append(Block(channels, width, stride, norm))
            channels = width
        modules[f"layer{number}"] = nn.Sequential(*stage)
    modules |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    modules["fc"] = nn.Linear(channels, classes)
    return nn.Sequential(modules)


class Block(nn.Module):
    """Two convolutions, and what came in added to what comes out."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = _normalisation(norm, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = _normalisation(norm, outputs)
        self.downsample = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), _normalisation(norm, outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        inside = self.bn1(self.conv1(x)).relu()
        result: Tensor = (self.bn2(self.conv2(inside)) + self.downsample(x)).relu()
        return result


def _normalisation(norm: Norm, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if norm == "batch" else nn.GroupNorm(GROUPS, channels)


def cnn1d(input_shape: Shape, classes: int, width: int = 32) -> nn.Sequential:
    """Three convolutions over the time of a sensor window, their mean over time, and a dense layer.

    A window is (steps, features). For 100 steps of 6 features and 7 classes: 24,103 parameters.
    """
    steps, features = _steps(input_shape)
    if steps < 4:
        raise ValueError(f"it needs windows of at least 4 steps, not {steps}")
    return nn.Sequential(
        OrderedDict(
            window=Steps(channels_first=True),
            conv1=nn.Conv1d(features, width, 5, padding=2),
            pool1=nn.MaxPool1d(2),
            relu1=nn.ReLU(),
            conv2=nn.Conv1d(width, 2 * width, 5, padding=2),
            pool2=nn.MaxPool1d(2),
            relu2=nn.ReLU(),
            conv3=nn.Conv1d(2 * width, 2 * width, 3, padding=1),
            relu3=nn.ReLU(),
            avgpool=nn.AdaptiveAvgPool1d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(2 * width, classes),
        )
    )


def lstm(input_shape: Shape, classes: int, units: int = 64, layers: int = 1) -> nn.Sequential:
    """A long short-term memory over (steps, features), and a dense layer on what it holds at the end.

    Of images the rows are the steps.

    Hochreiter, Schmidhuber: Long short-term memory. Neural Computation 1997.
    """
    _, features = _steps(input_shape)
    body = LastStep(features, units, layers)
    return nn.Sequential(OrderedDict(window=Steps(), body=body, fc=nn.Linear(units, classes)))


class LastStep(nn.Module):
    """An LSTM that gives its outputs of the last step alone."""

    def __init__(self, inputs: int, units: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, units, layers, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        last: Tensor = self.lstm(x)[0][:, -1]
        return last


class Steps(nn.Module):
    """Samples as (steps, features), or (features, steps); rows are the steps of images with channels."""

    def __init__(self, channels_first: bool = False) -> None:
        super().__init__()
        self.channels_first = channels_first

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            x = x[:, :, None]
        elif x.dim() == 4:
            x = x.transpose(1, 2).flatten(2)
        return x.transpose(1, 2) if self.channels_first else x


def _steps(input_shape: Shape) -> tuple[int, int]:
    """Steps and features of a sample: one value per step, a row per step, or a row of all channels."""
    if len(input_shape) == 1:
        return input_shape[0], 1
    if len(input_shape) == 2:
        return input_shape[0], input_shape[1]
    if len(input_shape) == 3:
        return input_shape[1], input_shape[0] * input_shape[2]
    raise ValueError(f"it needs samples of shape (steps, features), not {input_shape}")
