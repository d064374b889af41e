"""One PyTorch CPU process of mnist_vs_pytorch.py: the training of mnist_train, as fast as PyTorch's own means allow.

784-500-10, ReLU, mean cross-entropy, L2 1e-4 on the weights (weight_decay: the same gradient), SGD, moving average
0.99 of every parameter, batches gathered by shuffled index from uint8 images in memory and scaled. Prints one JSON
object: examples a second of all ranks, over the steps after the warm-up.
"""

import argparse
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "acceptance"))
from idx import read_idx

PIXEL_SCALE = 1.0 / 255.0


def model():
    network = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10))
    for layer in (network[0], network[2]):
        nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2)
        nn.init.zeros_(layer.bias)
    return network


def optimizer(network, fused):
    weights = [value for value in network.parameters() if value.ndim == 2]
    biases = [value for value in network.parameters() if value.ndim == 1]
    groups = [{"params": weights, "weight_decay": 1e-4}, {"params": biases, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.1, **({"fused": True} if fused else {"foreach": True}))


class Training:
    def __init__(self, images, labels, options):
        self.images, self.labels, self.batch = images, labels, options.batch
        self.rank, self.ranks = options.rank, options.ranks
        network = model()
        self.parameters = list(network.parameters())
        self.averages = [value.detach().clone() for value in self.parameters]
        self.optimizer = optimizer(network, options.optimizer == "fused")
        if self.ranks > 1:
            network = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True, static_graph=True)
        cross_entropy = nn.CrossEntropyLoss()

        def loss(batch_images, batch_labels):
            return cross_entropy(network(batch_images.to(torch.float32) * PIXEL_SCALE), batch_labels)

        self.loss = torch.compile(loss) if options.compile else loss
        self.order = torch.empty(0, dtype=torch.int64)

    def next_indices(self):
        """This rank's slice of the next global batch of the shuffled stream."""
        count = self.batch * self.ranks
        if len(self.order) < count:
            self.order = torch.cat([self.order, torch.randperm(len(self.labels))])
        taken, self.order = self.order[:count], self.order[count:]
        return taken[self.rank * self.batch : (self.rank + 1) * self.batch]

    def step(self):
        index = self.next_indices()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.images.index_select(0, index), self.labels.index_select(0, index)).backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, self.parameters, 0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--optimizer", choices=("foreach", "fused"), default="foreach")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rendezvous", type=pathlib.Path, help="file for the ranks to meet at")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    if options.ranks > 1:
        dist.init_process_group(
            "gloo", init_method=options.rendezvous.as_uri(), rank=options.rank, world_size=options.ranks
        )
    images, labels = (torch.from_numpy(array.copy()) for array in read_idx(options.data, "train"))
    labels = labels.long()

    training = Training(images, labels, options)
    for _ in range(100):
        training.step()
    # All ranks do the same number of steps; its length comes from the first steps' speed.
    started = time.perf_counter()
    for _ in range(100):
        training.step()
    steps = torch.tensor([max(200, int(100 * options.seconds / (time.perf_counter() - started)))])
    if options.ranks > 1:
        dist.broadcast(steps, 0)
        dist.barrier()
    started = time.perf_counter()
    for _ in range(int(steps)):
        training.step()
    seconds = time.perf_counter() - started
    print(json.dumps({"examples_per_second": int(steps) * options.batch * options.ranks / seconds}))
    if options.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
