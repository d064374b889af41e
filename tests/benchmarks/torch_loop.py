"""Shared by PyTorch's CPU processes of the comparisons: the stream of batches, the step, data parallelism, the timing.

A step: gather a shuffled batch, loss, backward, SGD with weight decay (the gradient of the L2 terms), moving averages
of all parameters. A process prints one JSON object: examples per second of all ranks, over the steps after the warm-up.
"""

import argparse
import json
import pathlib
import sys
import time
from dataclasses import dataclass
from typing import Callable

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "acceptance"))


@dataclass
class Task:
    """A training: its data, its network and its optimizer."""

    count: int  # number of samples
    network: nn.Module
    batch: Callable  # function from indices [batch] to the arguments of `loss`
    loss: Callable  # function from (network, *tensors) to the loss
    groups: list  # parameter groups of the optimizer
    learning_rate: float
    averages_decay: float  # None: no moving averages
    optimizer: Callable = torch.optim.SGD


def arguments(description, batch, warm_up_steps):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warm-up", type=int, default=warm_up_steps, help="steps that are not measured")
    parser.add_argument("--optimizer", choices=("foreach", "fused"), default="foreach")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--autocast", action="store_true", help="forward pass under torch.autocast, bfloat16")
    parser.add_argument("--flush-denormals", action="store_true", help="flush denormals, as ours always does")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rendezvous", type=pathlib.Path, help="file for the rendezvous of the ranks")
    return parser


class Training:
    def __init__(self, task, options):
        self.task, self.batch_size = task, options.batch
        self.rank, self.ranks = options.rank, options.ranks
        self.parameters = [value for value in task.network.parameters() if value.requires_grad]
        self.averages = [value.detach().clone() for value in self.parameters]
        means = {"fused": True} if options.optimizer == "fused" else {"foreach": True}
        self.optimizer = torch.optim.SGD(task.groups, lr=task.learning_rate, **means)
        network = task.network
        if self.ranks > 1:
            network = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True, static_graph=True)

        def loss(*tensors):
            with torch.autocast("cpu", torch.bfloat16, enabled=options.autocast):
                return task.loss(network, *tensors)

        self.loss = torch.compile(loss) if options.compile else loss
        self.order = torch.empty(0, dtype=torch.int64)

    def next_indices(self):
        """Returns this rank's slice of the next global batch in the shuffled stream."""
        count = self.batch_size * self.ranks
        if len(self.order) < count:
            self.order = torch.cat([self.order, torch.randperm(self.task.count)])
        taken, self.order = self.order[:count], self.order[count:]
        return taken[self.rank * self.batch_size : (self.rank + 1) * self.batch_size]

    def step(self):
        tensors = self.task.batch(self.next_indices())
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(*tensors).backward()
        self.optimizer.step()
        if self.task.averages_decay is None:
            return
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, self.parameters, 1 - self.task.averages_decay)


def measure(make_task, options):
    """Trains, and prints the examples per second. make_task: a function from options to a Task."""
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    if options.flush_denormals:
        torch.set_flush_denormal(True)  # must run before threads are created, because the threads inherit the mode
    if options.ranks > 1:
        dist.init_process_group(
            "gloo", init_method=options.rendezvous.as_uri(), rank=options.rank, world_size=options.ranks
        )
    training = Training(make_task(options), options)
    for _ in range(options.warm_up):
        training.step()
    # All ranks must run the same number of steps, which is computed from the speed of the first steps.
    started = time.perf_counter()
    for _ in range(options.warm_up):
        training.step()
    rate = options.warm_up / (time.perf_counter() - started)
    steps = torch.tensor([max(2 * options.warm_up, int(rate * options.seconds))])
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
