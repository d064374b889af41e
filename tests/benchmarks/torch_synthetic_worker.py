"""One PyTorch CPU process of synthetic_vs_pytorch.py: a network of torch_networks.py or timm, on images of noise."""

import torch
import torch.nn.functional as F
import torch_loop
from torch_networks import class_count, make_network

IMAGES = 256
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def task(options):
    images = torch.randint(0, 256, (IMAGES, options.size, options.size, 3), dtype=torch.uint8)
    network = make_network(options.network, options.classes)
    labels = torch.randint(0, class_count(options.network, options.classes), (IMAGES,))
    last = options.layout == "channels_last"
    network = network.to(memory_format=torch.channels_last if last else torch.contiguous_format)
    scale = 1.0 / (255.0 * torch.tensor(DEVIATION))
    shift = -torch.tensor(MEAN) / torch.tensor(DEVIATION)

    def batch(index):
        return torch.addcmul(shift, images[index].float(), scale).permute(0, 3, 1, 2), labels[index]

    def loss(model, x, batch_labels):
        return F.cross_entropy(model(x if last else x.contiguous()), batch_labels)

    return torch_loop.Task(
        count=IMAGES, network=network, batch=batch, loss=loss,
        groups=[{"params": [value for value in network.parameters() if value.requires_grad], "weight_decay": 1e-4, "momentum": 0.9, "nesterov": True}],
        learning_rate=0.01, averages_decay=None,
    )  # fmt: skip


def main():
    parser = torch_loop.arguments(__doc__, batch=16, warm_up_steps=2)
    parser.add_argument("--layout", choices=("channels_last", "contiguous"), default="channels_last")
    parser.add_argument("--network", required=True, help="of torch_networks.py or timm")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--classes", type=int, default=1000)
    torch_loop.measure(task, parser.parse_args())


if __name__ == "__main__":
    main()
