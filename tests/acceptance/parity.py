"""Compares a training program with its float64 reference; shared by check_parity and check_cifar_parity."""

import re

import numpy as np

import programs
import reference_training
from programs import Result, checkpoint, load, relative_error

LOSS_LIMIT = 1e-4
CONSOLE = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: step (\d+), loss = (\S+) "
    r"\((\S+) examples/sec; (\S+) sec/batch\)$",
    re.MULTILINE,
)
# The standard deviation of a standard normal distribution after truncation at two deviations.
CUT_DEVIATION = 0.8796


def is_truncated_normal(values, stddev):
    """Returns whether no value exceeds two standard deviations, and the standard deviation of the values is within 6
    standard errors of the expected standard deviation."""
    error = 0.55 / np.sqrt(values.size)  # relative standard error of the standard deviation
    return abs(values).max() <= 2 * stddev * (1 + 1e-6) and abs(values.std() / (CUT_DEVIATION * stddev) - 1) < 6 * error


def compare(context, title, program, reference, recipe, steps, ranks, paths, initial, limit, options=()):
    """Trains with the program and with `train` of the reference. Yields Results for the variables, the moving averages,
    the log and the console output."""
    run = context.directory("parity")
    done = context.train(
        "--init-from", initial, "--shuffle=false", "--log-every=1", f"--max-steps={steps}", *options,
        *reference_training.as_options(recipe), program=program, data=paths, train_dir=run, ranks=ranks,
    )  # fmt: skip
    expected = reference.train(paths, initial, recipe, ranks, steps)
    found = load(checkpoint(run, steps))
    title = f"parity: {title}, {ranks} x {recipe.batch_size}, {steps} steps"
    for group, values in (("variables", expected.variables), ("moving_averages", expected.averages)):
        errors = {
            name: relative_error(found[f"{group}/{name}"], values[name], expected.initial[name]) for name in values
        }
        detail = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
        yield Result(f"{title}, {group}", programs.worst(errors.values()) <= limit, detail)

    lines = programs.metrics(run)
    # The log has one line per step, in order.
    loss_error = _worst([line["loss"] for line in lines], expected.losses)
    rate_error = _worst([line["learning_rate"] for line in lines], expected.learning_rates)
    passed = loss_error <= LOSS_LIMIT and rate_error <= 1e-6
    yield Result(f"{title}, logs", passed, f"loss to {loss_error:.1e}, learning rate to {rate_error:.1e}")

    printed = [float(loss) for _, loss, _, _ in CONSOLE.findall(done.output)]
    good = len(printed) == steps and all(abs(a - b) <= 0.005 + 1e-4 * b for a, b in zip(printed, expected.losses))
    yield Result(f"{title}, console", good, f"{len(printed)} lines, losses as printed")


def _worst(found, expected):
    if len(found) != len(expected):
        return float("inf")
    return programs.worst(abs(a - b) / abs(b) for a, b in zip(found, expected))
