"""One PyTorch CPU process of cifar10_vs_pytorch.py: cifar10_train's training, optimised with PyTorch's own functions.

The tutorial's network on 24x24 crops, mean cross-entropy, L2 0.004 on the weights of local3 and local4, SGD, moving
average 0.9999 of every parameter. Images are uint8 in memory. One indexing operation gathers, crops and flips a batch; the
other distortions process the whole batch at once. The loop is torch_loop.py's.

Optimisations: pooling with ceil_mode pads only at the end, without a copy. conv1's ReLU comes after pool1, which has
the same result and fewer values. LRN (--lrn) sums its window by a banded 1x1 convolution and has a hand-written
backward pass.
"""

import torch
import torch.nn.functional as F
from torch import nn

import torch_loop
from cifar import read_cifar10  # torch_loop adds its folder to the import path

CROP = 24
ALPHA, BETA, RADIUS = 0.001 / 9, 0.75, 4


def band(channels=64):
    """Returns [channels, channels, 1, 1]: alpha for each pair of channels that are in each other's LRN window,
    otherwise 0."""
    index = torch.arange(channels)
    return (ALPHA * ((index[:, None] - index[None, :]).abs() <= RADIUS))[:, :, None, None].float()


class BandLrn(torch.autograd.Function):
    """y = x s^-0.75, s = 1 + band * x^2; dx = dy s^-0.75 - 2 beta x (band * (dy y / s))."""

    @staticmethod
    def forward(context, x, window):
        with torch.autocast(x.device.type, enabled=False):  # autocast would compute rsqrt, and therefore y, in float32
            s = F.conv2d(x * x, window).add_(1.0)
            root = s.rsqrt()
            factor = root.sqrt().mul_(root)  # s^-0.75
            y = x * factor
        context.save_for_backward(x, y, s, factor, window)
        return y

    @staticmethod
    def backward(context, dy):
        x, y, s, factor, window = context.saved_tensors
        across = F.conv2d((dy * y).div_(s), window)
        return torch.addcmul(dy * factor, x, across, value=-2 * BETA), None


def lrn_by_band(x, window):
    s = 1.0 + F.conv2d(x * x, window)
    root = s.rsqrt()
    return x * (root.sqrt() * root)


def lrn_by_torch(x, _):
    return F.local_response_norm(x, 2 * RADIUS + 1, alpha=0.001, beta=BETA, k=1.0)


def lrn_by_slices(x, _):
    """Computes LRN as sums of shifted slices, which a compiler can fuse into one pass."""
    squares = F.pad(x * x, (0, 0, 0, 0, RADIUS, RADIUS))
    s = 1.0 + ALPHA * sum(squares[:, i : i + x.shape[1]] for i in range(2 * RADIUS + 1))
    root = s.rsqrt()
    return x * (root.sqrt() * root)


LRNS = {
    "function": lambda x, window: BandLrn.apply(x, window.to(x.dtype)),
    "band": lrn_by_band,
    "torch": lrn_by_torch,
    "slices": lrn_by_slices,
}


class Network(nn.Module):
    def __init__(self, lrn):
        super().__init__()
        self.lrn = LRNS[lrn]
        self.window = band()  # not registered as a buffer: ranks need not exchange it
        self.conv1, self.conv2 = nn.Conv2d(3, 64, 5, padding=2), nn.Conv2d(64, 64, 5, padding=2)
        self.local3, self.local4 = nn.Linear(2304, 384), nn.Linear(384, 192)
        self.softmax_linear = nn.Linear(192, 10)
        for layer, stddev, bias in (
            (self.conv1, 0.05, 0.0),
            (self.conv2, 0.05, 0.1),
            (self.local3, 0.04, 0.1),
            (self.local4, 0.04, 0.1),
            (self.softmax_linear, 1 / 192, 0.0),
        ):
            nn.init.trunc_normal_(layer.weight, std=stddev, a=-2 * stddev, b=2 * stddev)
            nn.init.constant_(layer.bias, bias)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 3, 2, ceil_mode=True), inplace=True)
        x = self.lrn(x, self.window)
        x = self.lrn(F.relu(self.conv2(x), inplace=True), self.window)
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        x = x.flatten(1)
        x = F.relu(self.local3(x), inplace=True)
        return self.softmax_linear(F.relu(self.local4(x), inplace=True))


def distort(crops, brightness, contrast):
    """Maps [batch, 24, 24, 3] uint8 to [batch, 3, 24, 24] float32, channels last. brightness, contrast: [batch, 1, 1,
    1]."""
    x = crops.float()
    mean = x.mean(dim=(1, 2), keepdim=True)
    x = (x - mean) * contrast + (mean + brightness)
    variance, centre = torch.var_mean(x, dim=(1, 2, 3), keepdim=True, correction=0)
    return ((x - centre) / variance.sqrt().clamp(min=1 / (3 * CROP * CROP) ** 0.5)).permute(0, 3, 1, 2)


def task(options, device="cpu"):
    images, labels = read_cifar10(options.data, "train")
    images = torch.from_numpy(images.transpose(0, 2, 3, 1).copy()).to(device)  # NHWC
    labels = torch.from_numpy(labels.astype("int64")).to(device)
    last = options.layout == "channels_last"
    network = Network(options.lrn).to(memory_format=torch.channels_last if last else torch.contiguous_format)
    network, network.window = network.to(device), network.window.to(device)
    offsets = torch.arange(CROP, device=device)

    def batch(index):
        count = len(index)
        rows = torch.randint(0, 9, (count, 1), device=device) + offsets
        columns = torch.randint(0, 9, (count, 1), device=device) + offsets
        columns = torch.where(torch.rand(count, 1, device=device) < 0.5, columns.flip(1), columns)
        crops = images[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        brightness = torch.empty(count, 1, 1, 1, device=device).uniform_(-63, 63)
        contrast = torch.empty(count, 1, 1, 1, device=device).uniform_(0.2, 1.8)
        return crops, brightness, contrast, labels.index_select(0, index)

    def loss(model, crops, brightness, contrast, batch_labels):
        x = distort(crops, brightness, contrast)
        return F.cross_entropy(model(x if last else x.contiguous()), batch_labels)

    decayed = [network.local3.weight, network.local4.weight]
    others = [value for value in network.parameters() if all(value is not other for other in decayed)]
    return torch_loop.Task(
        count=len(labels),
        network=network,
        batch=batch,
        loss=loss,
        groups=[{"params": decayed, "weight_decay": 0.004}, {"params": others, "weight_decay": 0.0}],
        learning_rate=0.1,
        averages_decay=0.9999,
    )


def main():
    parser = torch_loop.arguments(__doc__, batch=128, warm_up_steps=10)
    parser.add_argument("--layout", choices=("channels_last", "contiguous"), default="channels_last")
    parser.add_argument("--lrn", choices=sorted(LRNS), default="function")
    torch_loop.measure(task, parser.parse_args())


if __name__ == "__main__":
    main()
