"""The training loop of the float64 references. It works for any network.

In step s (from 0), each tower computes the gradients of its own batch. The mean gradient updates the variables, and
then the variables update the moving averages:

  w -= lr(s) * gradient
  average -= (1 - d) * (average - w)      d = min(moving average decay, (1 + t) / (10 + t)), t = s + 1

Tower r, slot i of step s takes record (s * G + r * B + i) mod M, with B = batch per tower and G = towers * B.
"""

from dataclasses import dataclass

import numpy as np

from programs import load


@dataclass
class Trained:
    initial: dict  # {variable: array}
    variables: dict
    averages: dict
    losses: list  # [steps]; mean over the towers
    learning_rates: list  # [steps]
    closest_call: float = float("inf")  # smallest distance to a tie; inf: the tower computes none


def as_options(recipe):
    """Returns the fields of a recipe as options of a training program."""
    return [f"--{name.replace('_', '-')}={value!r}" for name, value in vars(recipe).items()]


def read_variables(checkpoint, names, group="variables"):
    """Returns {variable: float64 array} of the variables `names` in a group of a checkpoint."""
    arrays = load(checkpoint)
    return {name: arrays[f"{group}/{name}"].astype(np.float64) for name in names}


def train(tower, inputs, labels, initial, recipe, towers, steps):
    """Trains from the variables `initial`. Returns Trained. tower: function from (variables, inputs, labels, recipe) to
    (loss, {variable: gradient}) of one tower's batch."""
    variables = {name: value.copy() for name, value in initial.items()}
    averages = {name: value.copy() for name, value in initial.items()}
    batch, global_batch = recipe.batch_size, recipe.batch_size * towers
    losses, rates = [], []
    for step in range(steps):
        results = []
        for rank in range(towers):
            records = (step * global_batch + rank * batch + np.arange(batch)) % len(labels)
            results.append(tower(variables, inputs[records], labels[records], recipe))
        losses.append(np.mean([loss for loss, _ in results]))
        rates.append(recipe.learning_rate_at(step))
        decay = min(recipe.moving_average_decay, (2.0 + step) / (11.0 + step))
        for name in variables:
            gradient = np.mean([gradients[name] for _, gradients in results], axis=0)
            variables[name] -= rates[-1] * gradient
            averages[name] -= (1.0 - decay) * (averages[name] - variables[name])
    return Trained(initial, variables, averages, losses, rates)
