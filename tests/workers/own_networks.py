"""Small networks of a user's, for images of 8 x 8."""

from torch import nn


def dense(input_shape, classes):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, classes)
    )


def convolutional(input_shape, classes):
    """With all that has a state of its own: running statistics, and dropout's draws."""
    features = nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout()
    return nn.Sequential(*features, nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, classes))
