"""The training of cifar10_train --shuffle=false --distort=false, written in float64 PyTorch.

Variables have TensorFlow's layouts: conv [height, width, in, out], dense [in, out]. Loss of a tower: mean
cross-entropy over its batch + regularization/2 * sum w^2 of local3's and local4's weights.
lr = lr0 * decay^floor(s / decay_steps). The training loop is in reference_training.py.

A tie is a pooling window with two largest values that differ by less than the rounding error. In such a window, a run
in float32 may pass the gradient to the second largest value. Then the run differs from float64 by about 1e-3 after this
step, and by 1e-2 some steps later. PyTorch in float32 has the same problem. Ties matter only in pool2, because few
values carry its whole gradient. Therefore `train` returns the smallest relative difference in pool2. If this difference
is large enough, the runs are comparable.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F

import reference_training
from tfrecords import parse_example, read_records

SHAPES = {
    "conv1": (5, 5, 3, 64),
    "conv2": (5, 5, 64, 64),
    "local3": (2304, 384),
    "local4": (384, 192),
    "softmax_linear": (192, 10),
}
WEIGHT_STDDEVS = {"conv1": 0.05, "conv2": 0.05, "local3": 0.04, "local4": 0.04, "softmax_linear": 1 / 192}
BIASES = {"conv1": 0.0, "conv2": 0.1, "local3": 0.1, "local4": 0.1, "softmax_linear": 0.0}
VARIABLES = tuple(f"{layer}/{kind}" for layer in SHAPES for kind in ("weights", "biases"))
DECAYED = ("local3/weights", "local4/weights")


@dataclass(frozen=True)
class Recipe:
    batch_size: int = 128
    learning_rate: float = 0.1
    learning_rate_decay: float = 0.1
    decay_steps: int = 136718
    regularization: float = 0.004
    moving_average_decay: float = 0.9999

    def learning_rate_at(self, step):
        return self.learning_rate * self.learning_rate_decay ** (step // self.decay_steps)


def read_set(paths):
    """Returns (images [count, 3, 32, 32] uint8, labels [count] int64) in the order of the files."""
    examples = [parse_example(data, ("image", "label")) for path in paths for data in read_records(path)]
    images = np.stack([np.frombuffer(item["image"], np.uint8) for item in examples])
    return images.reshape(-1, 3, 32, 32), np.array([item["label"][0] for item in examples])


def undistorted(images):
    """Returns [count, 3, 24, 24] float64: the centre of each image, standardised."""
    centre = images[:, :, 4:28, 4:28].astype(np.float64)
    axes = {"axis": (1, 2, 3), "keepdims": True}
    return (centre - centre.mean(**axes)) / np.maximum(centre.std(**axes), 1 / np.sqrt(centre[0].size))


def conv(x, layer, variables):
    """Maps [n, in, h, w] to [n, out, h, w]: convolution with SAME padding and stride 1, then ReLU."""
    kernel = variables[f"{layer}/weights"].permute(3, 2, 0, 1)
    return F.relu(F.conv2d(x, kernel, variables[f"{layer}/biases"], padding=2))


def pool(x):
    """Max pooling of 3 x 3 windows with stride 2 and SAME padding. If a side has an even length, one element is added
    at its end."""
    return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), kernel_size=3, stride=2)


def lrn(x):
    """Returns x / (1 + 0.001/9 * s)^0.75. s: the sum of x^2 over the channel and the 4 channels on each side of it."""
    channels = x.shape[1]
    squares = F.pad(x * x, (0, 0, 0, 0, 4, 4))
    window = sum(squares[:, i : i + channels] for i in range(9))
    return x / (1 + 0.001 / 9 * window) ** 0.75


def dense(x, layer, variables):
    return x @ variables[f"{layer}/weights"] + variables[f"{layer}/biases"]


def second_norm(variables, x):
    """Maps [n, 3, 24, 24] to the output of norm2, [n, 64, 12, 12]."""
    x = lrn(pool(conv(x, "conv1", variables)))
    return lrn(conv(x, "conv2", variables))


def logits(variables, norm2):
    """Maps the output of norm2, [n, 64, 12, 12], to the logits, [n, 10]."""
    x = pool(norm2).permute(0, 2, 3, 1).flatten(1)  # the flattened order is (h, w, c)
    x = F.relu(dense(x, "local3", variables))
    x = F.relu(dense(x, "local4", variables))
    return dense(x, "softmax_linear", variables)


def smallest_gap(x):
    """Returns the smallest (largest - second) / largest over all windows of pool(x) in which these two values are
    positive and differ."""
    windows = F.pad(x, (0, 1, 0, 1), value=-torch.inf).unfold(2, 3, 2).unfold(3, 3, 2).flatten(4)
    first, second = windows.topk(2, dim=-1).values.unbind(-1)
    gaps = ((first - second) / first)[(first > 0) & (first > second)]
    return float(gaps.min()) if gaps.numel() else float("inf")


class Tower:
    """Computes (loss, {variable: gradient}) of one tower's batch: inputs [batch, 3, 24, 24], labels [batch]."""

    def __init__(self):
        self.closest_call = float("inf")  # smallest gap in pool2 over all batches

    def __call__(self, variables, inputs, labels, recipe):
        leaves = {name: torch.from_numpy(value).requires_grad_() for name, value in variables.items()}
        norm2 = second_norm(leaves, torch.from_numpy(inputs))
        self.closest_call = min(self.closest_call, smallest_gap(norm2.detach()))
        loss = F.cross_entropy(logits(leaves, norm2), torch.from_numpy(labels))
        loss = loss + recipe.regularization / 2 * sum((leaves[name] ** 2).sum() for name in DECAYED)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        return float(loss.detach()), {name: gradient.numpy() for name, gradient in zip(leaves, gradients)}


def train(paths, initial_checkpoint, recipe, towers, steps):
    """Trains from the variables of `initial_checkpoint`, a checkpoint of step 0. Returns Trained
    (reference_training.py)."""
    images, labels = read_set(paths)
    initial = reference_training.read_variables(initial_checkpoint, VARIABLES)
    tower = Tower()
    trained = reference_training.train(tower, undistorted(images), labels, initial, recipe, towers, steps)
    return replace(trained, closest_call=tower.closest_call)


def count_right(variables, images, labels):
    """Returns how many of the images [count, 3, 32, 32] uint8 the network classifies correctly."""
    tensors = {name: torch.from_numpy(value) for name, value in variables.items()}
    with torch.no_grad():
        found = logits(tensors, second_norm(tensors, torch.from_numpy(undistorted(images)))).argmax(dim=1).numpy()
    return int((found == labels).sum())
