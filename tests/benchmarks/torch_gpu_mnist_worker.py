"""PyTorch's GPU process of gpu_vs_pytorch.py for MNIST: the network and the loss of torch_worker.py in the training
loop of torch_gpu_loop.py."""

import torch

import torch_gpu_loop
import torch_loop
import torch_worker
from idx import read_idx  # torch_loop adds its folder to the import path


def task(options, _):
    images, labels = (torch.from_numpy(array.copy()).to(options.device) for array in read_idx(options.data, "train"))
    labels = labels.long()
    network = torch_worker.model().to(options.device)
    weights = [value for value in network.parameters() if value.ndim == 2]
    biases = [value for value in network.parameters() if value.ndim == 1]
    return torch_loop.Task(
        count=len(labels),
        network=network,
        batch=lambda index: (images.index_select(0, index), labels.index_select(0, index)),
        loss=torch_worker.loss_of(1.0 / 255.0),
        groups=[{"params": weights, "weight_decay": 1e-4}, {"params": biases, "weight_decay": 0.0}],
        learning_rate=0.1,
        averages_decay=0.99,
    )


if __name__ == "__main__":
    torch_gpu_loop.serve(task, torch_gpu_loop.arguments(__doc__).parse_args())
