"""One PyTorch CPU process of curve_vs_pytorch.py: trains the first epochs of jobs/recipes/cifar10_resnet18.cfg, and
evaluates after each epoch.

Prints a JSON object: the accuracy on the test set after each epoch, and the seconds of training.
"""

import json
import math
import sys
import time

import torch

import torch_loop
import torch_resnet_worker
from cifar import read_cifar10  # torch_loop adds its folder to the import path

RATE, STEPS = 0.1, 78125  # of the recipe


def precision(network, images, labels):
    network.eval()
    with torch.no_grad():
        right = sum(
            int((network(x).argmax(1) == y).sum()) for x, y in zip(images.split(1000), labels.split(1000), strict=True)
        )
    network.train()
    return right / len(labels)


def main():
    parser = torch_resnet_worker.arguments()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps-an-epoch", type=int, default=391)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    task = torch_resnet_worker.task(options)
    task.groups[0]["nesterov"] = False
    training = torch_loop.Training(task, options)
    images, labels = read_cifar10(options.data, "test")
    labels = torch.from_numpy(labels.astype("int64"))
    images = torch_resnet_worker.normalised(torch.from_numpy(images.transpose(0, 2, 3, 1).copy())).permute(0, 3, 1, 2)
    precisions, seconds, step = [], 0.0, 0
    for _ in range(options.epochs):
        started = time.monotonic()
        for _ in range(options.steps_an_epoch):
            training.optimizer.param_groups[0]["lr"] = RATE * 0.5 * (1.0 + math.cos(math.pi * step / STEPS))
            training.step()
            step += 1
        seconds += time.monotonic() - started
        precisions.append(precision(task.network, images, labels))
        print(f"PyTorch, seed {options.seed}: {precisions}", file=sys.stderr, flush=True)
    print(json.dumps({"precisions": precisions, "seconds": seconds}))


if __name__ == "__main__":
    main()
