#!/usr/bin/env python3
"""Writes regression_squared.txt, regression_absolute.txt, regression_huber.txt, multilabel_task.txt and
*_classification.txt: 20 training steps of these tasks in float64 numpy, and scikit-learn's scores of the result.

Network: 16 pixels / 256 -> dense(6) -> ReLU -> dense(n). The training is plain SGD on the 24 records in their order, in
batches of 8. Each line is a name and values: the `loss` of each step, the variables after the last step (row-major), or
a score over all records. tests/tasks/*_task_mpi_test.cpp compare with them; tests/tasks/task_training.h makes the same
records.
"""
import pathlib

import numpy as np
from sklearn import metrics

RECORDS, PIXELS, HIDDEN, BATCH, STEPS, RATE = 24, 16, 6, 8, 20, 0.25


def images():
    i, p = np.ogrid[:RECORDS, :PIXELS]
    return (7 * i * i + 5 * i * p + 13 * p + 31) % 256 / 256.0


def first_values(shape):
    n = np.arange(np.prod(shape))
    return ((37 * n + 11) % 97 - 48).reshape(shape) / 128.0


def mean_squared_error(output, target):
    difference = output - target
    return np.mean(difference**2), 2.0 * difference / difference.size


def mean_absolute_error(output, target):
    difference = output - target
    return np.mean(np.abs(difference)), np.sign(difference) / difference.size


def mean_huber_loss(output, target, delta=0.5):
    size = np.abs(output - target)
    loss = np.where(size <= delta, size**2 / 2, delta * (size - delta / 2))
    return np.mean(loss), np.clip(output - target, -delta, delta) / size.size


def binary_cross_entropy(logits, target):
    loss = np.maximum(logits, 0.0) - logits * target + np.log1p(np.exp(-np.abs(logits)))
    return np.mean(loss), (1.0 / (1.0 + np.exp(-logits)) - target) / logits.size


def weighted_cross_entropy(weights, smoothing=0.0, gamma=0.0):
    """Returns a function that computes the loss and its gradient. The gradient uses dp/dz of all pairs of classes, not
    the formula of the op."""
    def loss_of(logits, target):
        z = logits - logits.max(1, keepdims=True)
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        q = weights * ((1 - smoothing) * target + smoothing / target.shape[1])
        d_p = -q * ((1 - p)**gamma / p - gamma * (1 - p)**(gamma - 1) * np.log(p))
        jacobian = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])  # d p_i / d z_j
        return np.sum(-q * (1 - p)**gamma * np.log(p)) / len(p), np.einsum("bi,bij->bj", d_p, jacobian) / len(p)
    return loss_of


def train(targets, loss_of):
    x = images()
    w = {"hidden/weights": first_values((PIXELS, HIDDEN)), "hidden/biases": np.zeros(HIDDEN),
         "output/weights": first_values((HIDDEN, targets.shape[1])), "output/biases": np.zeros(targets.shape[1])}
    losses = []

    def forward(rows):
        hidden = np.maximum(x[rows] @ w["hidden/weights"] + w["hidden/biases"], 0.0)
        return hidden, hidden @ w["output/weights"] + w["output/biases"]

    for step in range(STEPS):
        rows = np.arange(step * BATCH, (step + 1) * BATCH) % RECORDS
        hidden, output = forward(rows)
        loss, d_output = loss_of(output, targets[rows])
        d_hidden = (d_output @ w["output/weights"].T) * (hidden > 0.0)
        gradients = {"hidden/weights": x[rows].T @ d_hidden, "hidden/biases": d_hidden.sum(0),
                     "output/weights": hidden.T @ d_output, "output/biases": d_output.sum(0)}
        for name, gradient in gradients.items():
            w[name] = w[name] - RATE * gradient
        losses.append(loss)
    return losses, w, forward(np.arange(RECORDS))[1]


def write(name, losses, variables, scores):
    lines = [f"loss {loss:.17g}" for loss in losses]
    lines += [f"{variable} {value:.17g}" for variable, values in variables.items() for value in values.ravel()]
    lines += [f"{score} {value:.17g}" for score, value in scores.items()]
    (pathlib.Path(__file__).parent / name).write_text("\n".join(lines) + "\n")


def main():
    i, j = np.ogrid[:RECORDS, :3]
    numbers = (11 * i + 29 * j) % 64 / 32.0 - 1.0
    for name, loss in ("squared", mean_squared_error), ("absolute", mean_absolute_error), ("huber", mean_huber_loss):
        losses, variables, output = train(numbers, loss)
        write(f"regression_{name}.txt", losses, variables,
              {"r2": metrics.r2_score(numbers, output), "mae": metrics.mean_absolute_error(numbers, output),
               "rmse": metrics.root_mean_squared_error(numbers, output)})

    i, j = np.ogrid[:RECORDS, :4]
    answers = ((5 * i + 3 * j + i * j) % 3 == 0).astype(float)
    losses, variables, output = train(answers, binary_cross_entropy)
    assert np.abs(output).min() > 1e-4  # so rounding cannot change the sign of an output
    write("multilabel_task.txt", losses, variables,
          {"mean_average_precision": metrics.average_precision_score(answers, output, average="macro"),
           "macro_f1": metrics.f1_score(answers, output >= 0, average="macro"),
           "micro_f1": metrics.f1_score(answers, output >= 0, average="micro"),
           "binary_cross_entropy": binary_cross_entropy(output, answers)[0]})

    i = np.arange(RECORDS)
    labels = np.where(i % 8 == 3, 2, i * 5 % 7 % 2)
    target, counts = np.eye(3)[labels], np.bincount(labels)
    given = np.array([1.0, 0.5, 4.0])
    for name, loss_of in (("balanced", weighted_cross_entropy(RECORDS / (3 * counts))),
                          ("focal", weighted_cross_entropy(given / given[labels].mean(), smoothing=0.125, gamma=1.5))):
        losses, variables, output = train(target, loss_of)
        write(f"{name}_classification.txt", losses, variables, {"accuracy": (output.argmax(1) == labels).mean()})


if __name__ == "__main__":
    main()
