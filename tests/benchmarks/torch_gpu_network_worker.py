"""PyTorch's GPU process of gpu_vs_pytorch.py for a network on images of noise, in torch_gpu_loop.py's loop.

The network is one of torch_networks.py, or of timm by its name. The layout is channels_last; normalisation runs on the GPU.
"""

import functools

import torch
import torch.nn.functional as F
import torch_gpu_loop
import torch_loop
from torch_networks import make_network
from torch_synthetic_worker import DEVIATION, MEAN

IMAGES = 8192


def task(options, form):
    device = options.device
    count = max(IMAGES * 32**2 // options.size**2, 4 * options.batch)
    images = torch.randint(0, 256, (count, options.size, options.size, 3), dtype=torch.uint8, device=device)
    labels = torch.randint(0, options.classes, (count,), device=device)
    network = make_network(options.network, options.classes).to(device, memory_format=torch.channels_last)
    scale = (1.0 / (255.0 * torch.tensor(DEVIATION))).to(device)
    shift = (-torch.tensor(MEAN) / torch.tensor(DEVIATION)).to(device)

    def batch(index):
        return torch.addcmul(shift, images[index].float(), scale).permute(0, 3, 1, 2), labels[index]

    def loss(model, x, batch_labels):
        return F.cross_entropy(model(x), batch_labels)

    parameters = [value for value in network.parameters() if value.requires_grad]
    group = {"params": parameters, "weight_decay": 0.0} if options.adamw else {"params": parameters, "momentum": 0.9, "nesterov": True}
    return torch_loop.Task(
        count=count, network=network, batch=batch, loss=loss, groups=[group], averages_decay=None,
        learning_rate=1e-4 if options.adamw else 0.01,
        optimizer=functools.partial(torch.optim.AdamW, capturable=True) if options.adamw else torch.optim.SGD,
    )  # fmt: skip


def main():
    parser = torch_gpu_loop.arguments(__doc__)
    parser.add_argument("--network", required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--adamw", action="store_true", help="AdamW instead of Nesterov's momentum")
    torch_gpu_loop.serve(task, parser.parse_args())


if __name__ == "__main__":
    main()
