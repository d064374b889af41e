#!/usr/bin/env python3
"""Writes multilabel_metrics.txt and regression_metrics.txt: random outputs and targets, and scikit-learn's scores for
them.

The first line has the number of samples and the number of columns. Then come the outputs, the targets, and a line "name
value" for each score. Logits are multiples of 0.5, so that some are equal. Label 3 applies to no sample, and label 2 to
every sample. The numbers of a regression are standardised by SCALES. tests/tasks/multilabel_test.cpp and
regression_test.cpp read the files.

    pip install numpy scikit-learn
"""
import pathlib

import numpy as np
from sklearn import metrics

SAMPLES = 200
SCALES = [(40.0, 12.5), (-3.0, 0.25), (1.0e6, 3.0e5)]


def write(name, outputs, targets, scores):
    lines = [f"{outputs.shape[0]} {outputs.shape[1]}"]
    lines += [" ".join(f"{value:.9g}" for value in row) for row in (*outputs, *targets)]
    lines += [f"{score} {value:.17g}" for score, value in scores.items()]
    (pathlib.Path(__file__).parent / name).write_text("\n".join(lines) + "\n")


def multilabel(draw):
    targets = draw.random((SAMPLES, 5)) < [0.3, 0.05, 2.0, -1.0, 0.6]
    logits = np.round(2 * draw.normal(targets * 1.0 - 0.5, 1.2)) / 2
    probabilities, predicted = 1 / (1 + np.exp(-logits)), logits >= 0
    has_positive = targets.any(0)
    scores = {
        "mean_average_precision": metrics.average_precision_score(
            targets[:, has_positive], probabilities[:, has_positive], average="macro"),
        "macro_f1": metrics.f1_score(targets, predicted, average="macro", zero_division=0),
        "micro_f1": metrics.f1_score(targets, predicted, average="micro"),
        "binary_cross_entropy": np.mean([metrics.log_loss(targets[:, j], probabilities[:, j], labels=[False, True])
                                         for j in range(5)]),
    }
    precision, recall, thresholds = metrics.precision_recall_curve(targets[:, 0], probabilities[:, 0])
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-30)
    scores["best_f1_of_label_0"] = f1.max()
    scores["best_threshold_of_label_0"] = thresholds[max(i for i in range(len(thresholds)) if f1[i] == f1.max())]
    write("multilabel_metrics.txt", logits, targets.astype(int), scores)


def regression(draw):
    targets = draw.normal(size=(SAMPLES, 3))
    targets[:, 1] = 0.5
    outputs = targets + draw.normal(scale=[0.5, 0.1, 2.0], size=targets.shape)
    outputs, targets = outputs.astype(np.float32), targets.astype(np.float32)
    means, deviations = np.array(SCALES).T
    number, predicted = targets * deviations + means, outputs * deviations + means
    scores = {
        "r2": metrics.r2_score(number, predicted),
        "mae": metrics.mean_absolute_error(number, predicted),
        "rmse": metrics.root_mean_squared_error(number, predicted),
    }
    write("regression_metrics.txt", outputs, targets, scores)


if __name__ == "__main__":
    random = np.random.default_rng(1)
    multilabel(random)
    regression(random)
