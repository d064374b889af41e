"""The MNIST program in float64 numpy, step for step: what mnist_train --shuffle=false must compute.

Network: logits = relu(x W1 + b1) W2 + b2, x = uint8 pixels * scale. Loss of a tower: mean cross-entropy over its batch
+ c/2 * (sum W1^2 + sum W2^2). The gradients of all towers are averaged; then w -= lr * gradient with
lr = lr0 * decay^(s / decay_steps), s = updates applied before; then shadow -= (1 - d) * (shadow - w) with
d = min(moving average decay, (1 + t) / (10 + t)), t = s + 1.
Tower r, slot i of step s takes record (s * G + r * B + i) mod M, with B = batch per tower and G = towers * B.
"""

from dataclasses import dataclass

import numpy as np

from programs import VARIABLES, load
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

    def options(self):
        """The same as options of mnist_train."""
        return [f"--{name.replace('_', '-')}={value!r}" for name, value in vars(self).items()]


@dataclass
class Trained:
    initial: dict  # {variable: array}
    variables: dict
    averages: dict
    losses: list  # [steps], mean over towers
    learning_rates: list  # [steps]


def read_set(paths):
    """(images [count, 784] uint8, labels [count] int64) in the order of the files."""
    examples = [parse_example(data, ("image_raw", "label")) for path in paths for data in read_records(path)]
    images = np.stack([np.frombuffer(item["image_raw"], np.uint8) for item in examples])
    return images, np.array([item["label"][0] for item in examples])


def tower(variables, images, labels, recipe):
    """(loss, {variable: gradient}) of one tower's batch: images [batch, 784] float64, labels [batch]."""
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
    """Trains from the variables of a checkpoint of step 0."""
    images, labels = read_set(paths)
    arrays = load(initial_checkpoint)
    initial = {name: arrays[f"variables/{name}"].astype(np.float64) for name in VARIABLES}
    variables = {name: value.copy() for name, value in initial.items()}
    averages = {name: value.copy() for name, value in initial.items()}
    batch, global_batch = recipe.batch_size, recipe.batch_size * towers
    history, rates = [], []
    for step in range(steps):
        results = []
        for rank in range(towers):
            records = (step * global_batch + rank * batch + np.arange(batch)) % len(labels)
            results.append(tower(variables, images[records] * recipe.pixel_scale, labels[records], recipe))
        history.append(np.mean([loss for loss, _ in results]))
        rates.append(recipe.learning_rate * recipe.learning_rate_decay ** (step / recipe.decay_steps))
        decay = min(recipe.moving_average_decay, (2.0 + step) / (11.0 + step))
        for name in VARIABLES:
            gradient = np.mean([gradients[name] for _, gradients in results], axis=0)
            variables[name] -= rates[-1] * gradient
            averages[name] -= (1.0 - decay) * (averages[name] - variables[name])
    return Trained(initial, variables, averages, history, rates)
