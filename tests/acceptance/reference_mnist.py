"""The training of mnist_train --shuffle=false, written in float64 numpy. The program and this reference must agree in
each step.

Network: logits = relu(x W1 + b1) W2 + b2, x = uint8 pixels * scale. Loss of a tower: mean cross-entropy over its batch
+ c/2 * (sum W1^2 + sum W2^2). lr = lr0 * decay^(s / decay_steps). The training loop is in reference_training.py.
"""

from dataclasses import dataclass

import numpy as np

import reference_training
from programs import VARIABLES
from tfrecords import parse_example, read_records


@dataclass(frozen=True)
class Recipe:
    batch_size: int = 100
    learning_rate: float = 0.001
    learning_rate_decay: float = 0.99
    decay_steps: int = 600
    regularization: float = 0.0001
    moving_average_decay: float = 0.99
    pixel_scale: float = 1.0

    def learning_rate_at(self, step):
        return self.learning_rate * self.learning_rate_decay ** (step / self.decay_steps)


def read_set(paths):
    """Returns (images [count, 784] uint8, labels [count] int64) in the order of the files."""
    examples = [parse_example(data, ("image_raw", "label")) for path in paths for data in read_records(path)]
    images = np.stack([np.frombuffer(item["image_raw"], np.uint8) for item in examples])
    return images, np.array([item["label"][0] for item in examples])


def tower(variables, images, labels, recipe):
    """Returns (loss, {variable: gradient}) of one tower's batch: images [batch, 784] float64, labels [batch]."""
    w1, b1, w2, b2 = (variables[name] for name in VARIABLES)
    count = len(labels)
    hidden = np.maximum(images @ w1 + b1, 0.0)  # [batch, 500]
    logits = hidden @ w2 + b2  # [batch, 10]
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))  # [batch]
    cross_entropy = (log_sum - shifted[np.arange(count), labels]).mean()
    loss = cross_entropy + recipe.regularization / 2 * ((w1**2).sum() + (w2**2).sum())

    d_logits = np.exp(shifted - log_sum[:, None])
    d_logits[np.arange(count), labels] -= 1.0
    d_logits /= count
    d_hidden = (d_logits @ w2.T) * (hidden > 0.0)
    gradients = (
        images.T @ d_hidden + recipe.regularization * w1,
        d_hidden.sum(axis=0),
        hidden.T @ d_logits + recipe.regularization * w2,
        d_logits.sum(axis=0),
    )
    return loss, dict(zip(VARIABLES, gradients))


def train(paths, initial_checkpoint, recipe, towers, steps):
    """Trains from the variables of `initial_checkpoint`, a checkpoint of step 0. Returns Trained
    (reference_training.py)."""
    images, labels = read_set(paths)
    initial = reference_training.read_variables(initial_checkpoint, VARIABLES)
    return reference_training.train(tower, images * recipe.pixel_scale, labels, initial, recipe, towers, steps)
