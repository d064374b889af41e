"""One PyTorch CPU process of resnet_vs_pytorch.py: cifar10_train --model resnet9 or resnet18, as fast as PyTorch can.

Mean cross-entropy, SGD with Nesterov's momentum and weight decay on everything, no moving averages. Images lie padded as
uint8 in memory; a batch is gathered, cropped and mirrored by one indexing and normalised. The loop is torch_loop.py's.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import torch_loop
from cifar import read_cifar10  # torch_loop finds it

PADDING = 4
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


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
    def forward(self, x):
        return 0.125 * x


def resnet9():
    return nn.Sequential(
        conv_norm_relu(3, 64), conv_norm_relu(64, 128), nn.MaxPool2d(2), Residual(128),
        conv_norm_relu(128, 256), nn.MaxPool2d(2), conv_norm_relu(256, 512), nn.MaxPool2d(2), Residual(512),
        nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10, bias=False), Scale(),
    )  # fmt: skip


def resnet18():
    blocks = []
    for filters_in, filters in ((64, 64), (64, 128), (128, 256), (256, 512)):
        blocks += [BasicBlock(filters_in, filters, filters // filters_in), BasicBlock(filters, filters, 1)]
    return nn.Sequential(conv_norm_relu(3, 64), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


NETWORKS = {"resnet9": resnet9, "resnet18": resnet18}
CUTOUT = {"resnet9": 8, "resnet18": 0}


def task(options):
    images, labels = read_cifar10(options.data, "train")
    border = ((0, 0), (0, 0), (PADDING, PADDING), (PADDING, PADDING))
    mode = "reflect" if options.network == "resnet9" else "constant"
    images = torch.from_numpy(np.pad(images, border, mode).transpose(0, 2, 3, 1).copy())  # NHWC
    labels = torch.from_numpy(labels.astype("int64"))
    last = options.layout == "channels_last"
    network = NETWORKS[options.network]().to(
        memory_format=torch.channels_last if last else torch.contiguous_format
    )
    span = torch.arange(32)
    scale = 1.0 / (255.0 * torch.tensor(DEVIATION))
    shift = -torch.tensor(MEAN) / torch.tensor(DEVIATION)
    cutout = CUTOUT[options.network]

    def batch(index):
        count = len(index)
        rows = torch.randint(0, 2 * PADDING + 1, (count, 1)) + span
        columns = torch.randint(0, 2 * PADDING + 1, (count, 1)) + span
        columns = torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns)
        x = torch.addcmul(shift, images[index[:, None, None], rows[:, :, None], columns[:, None, :]].float(), scale)
        if cutout:
            top, left = torch.randint(0, 33 - cutout, (2, count, 1))
            in_rows = (span >= top) & (span < top + cutout)
            in_columns = (span >= left) & (span < left + cutout)
            x.masked_fill_((in_rows[:, :, None] & in_columns[:, None, :])[..., None], 0.0)
        return x.permute(0, 3, 1, 2), labels.index_select(0, index)

    def loss(model, x, batch_labels):
        return F.cross_entropy(model(x if last else x.contiguous()), batch_labels)

    return torch_loop.Task(
        count=len(labels), network=network, batch=batch, loss=loss,
        groups=[{"params": list(network.parameters()), "weight_decay": 5e-4, "momentum": 0.9, "nesterov": True}],
        learning_rate=0.01, averages_decay=None,
    )  # fmt: skip


def main():
    parser = torch_loop.arguments(__doc__, batch=128, warm_up_steps=2)
    parser.add_argument("--layout", choices=("channels_last", "contiguous"), default="channels_last")
    parser.add_argument("--network", choices=sorted(NETWORKS), required=True)
    torch_loop.measure(task, parser.parse_args())


if __name__ == "__main__":
    main()
