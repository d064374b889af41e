"""The networks of cifar10_train --model in PyTorch, in float32 and optimised for speed, and their input distortions.

tests/acceptance/reference_resnets.py contains the versions that the parity checks compare with.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn


def conv_norm(filters_in, filters, kernel=3, stride=1):
    convolution = nn.Conv2d(filters_in, filters, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters))


def conv_norm_relu(*shape):
    return nn.Sequential(*conv_norm(*shape), nn.ReLU(inplace=True))


class Residual(nn.Module):
    def __init__(self, filters):
        super().__init__()
        self.branch = nn.Sequential(conv_norm_relu(filters, filters), conv_norm_relu(filters, filters))

    def forward(self, x):
        return x + self.branch(x)


class BasicBlock(nn.Module):
    def __init__(self, filters_in, filters, stride):
        super().__init__()
        self.branch = nn.Sequential(conv_norm_relu(filters_in, filters, 3, stride), conv_norm(filters, filters))
        self.shortcut = nn.Identity() if stride == 1 else conv_norm(filters_in, filters, 1, stride)

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x), inplace=True)


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


def resnet9():
    return nn.Sequential(
        conv_norm_relu(3, 64), conv_norm_relu(64, 128), nn.MaxPool2d(2), Residual(128),
        conv_norm_relu(128, 256), nn.MaxPool2d(2), conv_norm_relu(256, 512), nn.MaxPool2d(2), Residual(512),
        nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10, bias=False), Scale(0.125),
    )  # fmt: skip


def resnet18_cifar():
    blocks = []
    for filters_in, filters in ((64, 64), (64, 128), (128, 256), (256, 512)):
        blocks += [BasicBlock(filters_in, filters, filters // filters_in), BasicBlock(filters, filters, 1)]
    return nn.Sequential(conv_norm_relu(3, 64), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Bottleneck(nn.Module):
    """A bottleneck of ResNet v1.5: the 3x3 convolution has the stride."""

    def __init__(self, filters_in, filters, stride):
        super().__init__()
        wide = 4 * filters
        self.branch = nn.Sequential(
            conv_norm_relu(filters_in, filters, 1), conv_norm_relu(filters, filters, 3, stride),
            conv_norm(filters, wide, 1),
        )  # fmt: skip
        self.shortcut = nn.Identity() if filters_in == wide else conv_norm(filters_in, wide, 1, stride)

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x), inplace=True)


def resnet50():
    blocks, wide = [], 64
    for filters, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(count):
            blocks.append(Bottleneck(wide, filters, 2 if filters > 64 and block == 0 else 1))
            wide = 4 * filters
    stem = conv_norm_relu(3, 64, 7, 2), nn.MaxPool2d(3, 2, padding=1)
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, 10))


def conv(filters_in, filters):
    return nn.Conv2d(filters_in, filters, 3, padding=1, bias=False)


def shifting_norm(filters, momentum):
    norm = nn.BatchNorm2d(filters, eps=1e-12, momentum=momentum)
    norm.weight.requires_grad_(False)
    return norm


class ResidualGroup(nn.Module):
    """A residual group of airbench96."""

    def __init__(self, filters_in, filters):
        super().__init__()
        self.first = nn.Sequential(
            conv(filters_in, filters), nn.MaxPool2d(2), shifting_norm(filters, 0.1), nn.GELU()
        )
        self.branch = nn.Sequential(
            conv(filters, filters), shifting_norm(filters, 0.1), nn.GELU(), conv(filters, filters),
            shifting_norm(filters, 0.1),
        )  # fmt: skip

    def forward(self, x):
        x = self.first(x)
        return F.gelu(x + self.branch(x))


def airbench(*groups):
    """Returns an airbench network. `groups`: the modules after the first layer. The first layer has 24 output channels,
    and its weights are frozen."""
    whiten = nn.Conv2d(3, 24, 2)
    whiten.weight.requires_grad_(False)
    channels = [value.shape[0] for value in groups[-1].parameters()][-1]
    logits = nn.Linear(channels, 10, bias=False)
    return nn.Sequential(whiten, nn.GELU(), *groups, nn.MaxPool2d(3), nn.Flatten(), logits, Scale(1 / 9))


def airbench94():
    def group(filters_in, filters):
        return nn.Sequential(
            conv(filters_in, filters), nn.MaxPool2d(2), shifting_norm(filters, 0.4), nn.GELU(),
            conv(filters, filters), shifting_norm(filters, 0.4), nn.GELU(),
        )  # fmt: skip

    return airbench(group(24, 64), group(64, 256), group(256, 256))


def airbench96():
    return airbench(ResidualGroup(24, 128), ResidualGroup(128, 384), ResidualGroup(384, 512))


@dataclass
class Network:
    make: object  # function without arguments that returns the network
    padding: int = 4
    padding_mode: str = "reflect"
    cutout: int = 0
    label_smoothing: float = 0.0


NETWORKS = {
    "resnet9": Network(resnet9, cutout=8),
    "resnet18_cifar": Network(resnet18_cifar, padding_mode="constant"),
    "resnet50": Network(resnet50, padding_mode="constant"),
    "airbench94": Network(airbench94, padding=2, label_smoothing=0.2),
    "airbench96": Network(airbench96, cutout=12, label_smoothing=0.2),
}


def make_network(name, classes):
    """Returns a network of NETWORKS, or of timm by its name. A network that does not end with a linear layer keeps its
    10 classes."""
    if name not in NETWORKS:
        import timm

        return timm.create_model(name, num_classes=classes)
    network = NETWORKS[name].make()
    if isinstance(network[-1], nn.Linear):
        network[-1] = nn.Linear(network[-1].in_features, classes)
    return network


def class_count(name, classes):
    """Returns how many classes make_network(name, classes) distinguishes."""
    return classes if name not in NETWORKS or isinstance(NETWORKS[name].make()[-1], nn.Linear) else 10
