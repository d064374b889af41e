"""One PyTorch CPU process of mnist_vs_pytorch.py: the training of mnist_train, optimised with PyTorch's own functions.

Network 784-500-10 with ReLU, mean cross-entropy, L2 1e-4 on the weights, SGD, and a moving average (decay 0.99) of
every parameter. A batch is gathered by shuffled indices from uint8 images in memory, and then scaled. The loop is
torch_loop.py's.
"""

import torch
import torch.nn.functional as F
from torch import nn

import torch_loop
from idx import read_idx  # torch_loop adds its folder to the import path

def model():
    network = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10))
    for layer in (network[0], network[2]):
        nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2)
        nn.init.zeros_(layer.bias)
    return network


def loss_of(pixel_scale):
    def loss(network, images, labels):
        return F.cross_entropy(network(images.to(torch.float32) * pixel_scale), labels)

    return loss


def task(options):
    images, labels = (torch.from_numpy(array.copy()) for array in read_idx(options.data, "train"))
    labels = labels.long()
    network = model()
    weights = [value for value in network.parameters() if value.ndim == 2]
    biases = [value for value in network.parameters() if value.ndim == 1]
    return torch_loop.Task(
        count=len(labels),
        network=network,
        batch=lambda index: (images.index_select(0, index), labels.index_select(0, index)),
        loss=loss_of(options.pixel_scale),
        groups=[{"params": weights, "weight_decay": 1e-4}, {"params": biases, "weight_decay": 0.0}],
        learning_rate=options.learning_rate,
        averages_decay=0.99,
    )


if __name__ == "__main__":
    parser = torch_loop.arguments(__doc__, batch=100, warm_up_steps=100)
    parser.add_argument("--pixel-scale", type=float, default=1.0 / 255.0)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    torch_loop.measure(task, parser.parse_args())
