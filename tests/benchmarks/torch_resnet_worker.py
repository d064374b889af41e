"""One PyTorch CPU process of resnet_vs_pytorch.py: the training of cifar10_train --model, optimised for speed.

Mean cross-entropy, SGD with Nesterov momentum and weight decay on all parameters, no moving averages. Images are padded
uint8 in memory. One indexing operation gathers, crops and flips a batch. The loop is torch_loop.py's.
"""

import numpy as np
import torch
import torch.nn.functional as F

import torch_loop
from cifar import read_cifar10  # torch_loop adds its folder to the import path
from torch_networks import NETWORKS

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def normalised(images):
    """Returns the normalised inputs of the networks, from uint8 [..., 3]."""
    scale = 1.0 / (255.0 * torch.tensor(DEVIATION))
    return torch.addcmul(-torch.tensor(MEAN) / torch.tensor(DEVIATION), images.float(), scale)


def task(options):
    images, labels = read_cifar10(options.data, "train")
    chosen = NETWORKS[options.network]
    padding, cutout = chosen.padding, chosen.cutout
    border = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    images = torch.from_numpy(np.pad(images, border, chosen.padding_mode).transpose(0, 2, 3, 1).copy())  # NHWC
    labels = torch.from_numpy(labels.astype("int64"))
    last = options.layout == "channels_last"
    network = chosen.make().to(memory_format=torch.channels_last if last else torch.contiguous_format)
    if options.frozen:
        network[0].bias.requires_grad_(False)
    span = torch.arange(32)

    def batch(index):
        count = len(index)
        rows = torch.randint(0, 2 * padding + 1, (count, 1)) + span
        columns = torch.randint(0, 2 * padding + 1, (count, 1)) + span
        columns = torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns)
        x = normalised(images[index[:, None, None], rows[:, :, None], columns[:, None, :]])
        if cutout:
            top, left = torch.randint(0, 33 - cutout, (2, count, 1))
            in_rows = (span >= top) & (span < top + cutout)
            in_columns = (span >= left) & (span < left + cutout)
            x.masked_fill_((in_rows[:, :, None] & in_columns[:, None, :])[..., None], 0.0)
        return x.permute(0, 3, 1, 2), labels.index_select(0, index)

    def loss(model, x, batch_labels):
        logits = model(x if last else x.contiguous())
        return F.cross_entropy(logits, batch_labels, label_smoothing=chosen.label_smoothing)

    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return torch_loop.Task(
        count=len(labels), network=network, batch=batch, loss=loss,
        groups=[{"params": trained, "weight_decay": 5e-4, "momentum": 0.9, "nesterov": True}],
        learning_rate=0.01, averages_decay=None,
    )  # fmt: skip


def arguments():
    parser = torch_loop.arguments(__doc__, batch=128, warm_up_steps=2)
    parser.add_argument("--layout", choices=("channels_last", "contiguous"), default="channels_last")
    parser.add_argument("--network", choices=sorted(NETWORKS), required=True)
    parser.add_argument("--frozen", action="store_true", help="freeze the whitening biases of airbench networks")
    return parser


def main():
    torch_loop.measure(task, arguments().parse_args())


if __name__ == "__main__":
    main()
