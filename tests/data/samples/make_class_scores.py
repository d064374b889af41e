#!/usr/bin/env python3
"""Writes class_scores.txt: scores of random classifications, with scikit-learn and torchmetrics.

Each line is a name and a value: `classes` begins a case, `samples` is the number of its samples, the scores follow.
tests/tasks/classification_metric_test.cpp makes the same samples and compares. Needs scikit-learn, torch and torchmetrics.
"""
import pathlib

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score, top_k_accuracy_score
from torchmetrics.classification import MulticlassCalibrationError

CASES = ((2, 50), (3, 1), (5, 200), (6, 300), (10, 500), (100, 150))  # (classes, samples); some classes have no samples


def samples_of(classes, samples):
    """Returns logits that float32 represents exactly, and labels. In half of the samples, the true class has the
    largest logit."""
    state = classes

    def draw():
        nonlocal state
        state = (state * 1664525 + 1013904223) % 2**32
        return state >> 8  # a number of 24 bits

    logits, labels = np.empty((samples, classes), np.float32), np.empty(samples, np.int64)
    for i in range(samples):
        labels[i] = draw() % classes
        logits[i] = [draw() / 2**21 - 4 for _ in range(classes)]
        logits[i, labels[i]] += draw() % 2 * 4
    return logits, labels


def scores_of(classes, logits, labels):
    predicted = logits.argmax(1)
    assert all(len(set(row)) == classes for row in logits.tolist())  # no two logits are equal
    if classes > 5:
        yield "top_5", top_k_accuracy_score(labels, logits, k=5, labels=np.arange(classes))
    yield "balanced_accuracy", np.mean([(predicted == labels)[labels == c].mean() for c in np.unique(labels)])
    if set(predicted) <= set(labels):  # otherwise scikit-learn warns
        assert abs(balanced_accuracy_score(labels, predicted) - np.mean(
            [(predicted == labels)[labels == c].mean() for c in np.unique(labels)])) < 1e-14
    yield "macro_f1", f1_score(labels, predicted, average="macro", zero_division=0.0)
    error = MulticlassCalibrationError(classes, n_bins=15, norm="l1")
    error.set_dtype(torch.float64)
    yield "calibration_error", error(torch.tensor(logits, dtype=torch.float64).softmax(1), torch.tensor(labels)).item()


def main():
    lines = []
    for classes, samples in CASES:
        lines += [f"classes {classes}", f"samples {samples}"]
        lines += [f"{name} {value:.17g}" for name, value in scores_of(classes, *samples_of(classes, samples))]
    (pathlib.Path(__file__).parent / "class_scores.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
