"""Compares the TensorBoard events of real runs (tags, steps and values) with the checkpoints of these runs and with
numpy.

An update is w' = w - rate * gradient. Therefore the check computes the mean gradient of a step, including the gradient
of the L2 loss, from the checkpoints before and after the step.
"""

import numpy as np

import events
import programs
import reference_mnist
from programs import SCALED, VARIABLES, Result, checkpoint, load, worst

RATE, DECAY, DECAY_STEPS, L2 = 0.1, 0.5, 4, 0.1
COMMON = (
    "--learning-rate", RATE, "--learning-rate-decay", DECAY, "--decay-steps", DECAY_STEPS, "--regularization", L2,
    "--checkpoint-every", 1, "--keep-checkpoints", 0, "--moving-average-decay", 0.9,
)  # fmt: skip
LOSSES = ("loss", "cross_entropy", "learning_rate")
SCORES = ("precision @ 1", "eval_loss", "top_5", "balanced_accuracy", "macro_f1", "calibration_error")
CONV, DENSE = ("conv1", "conv2"), ("local3", "local4", "softmax_linear")
FLOAT = 1e-5  # relative error of values in float32
UPDATE = 2e-3  # relative error of a gradient, computed from float32 variables


def check(context):
    """TensorBoard events"""
    yield from _mnist(context)
    yield from _cifar10(context)


def _result(title, wrong, detail):
    return Result(f"events: {title}", not wrong, wrong or detail)


def _within(title, errors, limit):
    """Checks that no error exceeds the limit. `errors`: {name: relative error}."""
    largest = max(errors, key=lambda what: worst([errors[what]]))
    good = worst(errors.values()) <= limit
    return Result(f"events: {title}", good, f"{len(errors)} values, the worst {largest}, {errors[largest]:.1e} off")


def _relative(found, expected):
    return abs(found - expected) / abs(expected) if expected else abs(found)


def _tags(title, shown, expected):
    """Checks that the tags and their steps equal `expected`, {tag: steps}."""
    found = {tag: [step for step, _ in items] for tag, items in shown.items()}
    wrong = [tag for tag in sorted(found.keys() | expected) if found.get(tag) != expected.get(tag)]
    wrong = [f"{tag} at {found.get(tag)}" for tag in wrong]
    return _result(f"{title}: tags and their steps", "; ".join(wrong[:4]), f"{len(found)} tags")


def _mnist(context):
    """Tests mnist_train at 2 ranks, without shuffling. The run writes log lines and summaries at different steps."""
    data = context.small_set(300, 100)
    batch, last, steps = 24, 12, [5, 10, 11]  # as in the reference program: no summary at step 0, but at the last step

    def train(*options):
        run = context.directory("mnist")
        done = context.train(
            *COMMON, *SCALED[:2], "--batch-size", batch, "--max-steps", last, "--shuffle=false",
            "--eval-data", data / "test-*.tfrecord", "--eval-every", 4, *options,
            data=data / "train-*.tfrecord", train_dir=run, ranks=2,
        )  # fmt: skip
        return run, events.shown(run), done

    run, shown, _ = train("--log-every", 3, "--summary-every", 5)
    expected = {tag: steps for tag in (*LOSSES, "examples_per_second", "gradient_norm", *VARIABLES, *(f"gradients_on_average/{name}" for name in VARIABLES))}
    yield _tags("mnist_train", shown, expected | dict.fromkeys(SCORES, [4, 8, 12]) | {"options": [0]})
    table = shown["options"][0][1]
    rows = ("| --batch-size | `24` |", "| --learning-rate | `0.1` |", "| number of ranks | `2` |")
    yield _result("mnist_train: options as text", ", ".join(row for row in rows if row not in table), f"{len(table)} bytes")
    yield _result("mnist_train: first events of a file", _beginning(run), "version, then the graph")

    recipe = reference_mnist.Recipe(regularization=L2)
    images, labels = reference_mnist.read_set(sorted(data.glob("train-*.tfrecord")))
    errors, rates, gradients, variables, norms = {}, {}, {}, {}, {}
    for at, step in enumerate(steps):
        before, after = load(checkpoint(run, step)), load(checkpoint(run, step + 1))
        records = (step * 2 * batch + np.arange(2 * batch)) % len(labels)
        arrays = {name: before[f"variables/{name}"].astype(np.float64) for name in VARIABLES}
        loss, _ = reference_mnist.tower(arrays, images[records] / 255.0, labels[records], recipe)
        l2_loss = L2 / 2 * sum((arrays[name] ** 2).sum() for name in VARIABLES if name.endswith("weights"))
        errors[f"loss at {step}"] = _relative(shown["loss"][at][1], loss)
        errors[f"cross_entropy at {step}"] = _relative(shown["cross_entropy"][at][1], loss - l2_loss)
        rate = RATE * DECAY ** (step / DECAY_STEPS)
        rates[f"step {step}"] = _relative(shown["learning_rate"][at][1], rate)
        found = [_gradient(before, after, name, rate) for name in VARIABLES]
        norm = np.sqrt(sum((gradient**2).sum() for gradient in found))
        norms[f"step {step}"] = _relative(shown["gradient_norm"][at][1], norm)
        for name in VARIABLES:
            variables |= _apart(f"{name} at {step}", shown[name][at][1], before[f"variables/{name}"])
            histogram = shown[f"gradients_on_average/{name}"][at][1]
            gradients |= _apart(f"{name} at {step}", histogram, _gradient(before, after, name, rate))
    yield _within("mnist_train: losses between logged steps equal numpy's", errors, 1e-4)
    yield _within("mnist_train: learning rate", rates, FLOAT)
    yield _within("mnist_train: histograms of the variables before the update", variables, FLOAT)
    yield _within("mnist_train: histograms of mean gradients with the L2 part", gradients, UPDATE)
    yield _within("mnist_train: norm of the mean gradient", norms, UPDATE)

    logged = [(line["step"], line["eval_precision"]) for line in programs.metrics(run) if "eval_precision" in line]
    precisions = {f"step {a[0]}": _relative(b[1], a[1]) for a, b in zip(logged, shown["precision @ 1"])}
    yield _within("mnist_train: accuracy as logged", precisions, FLOAT)

    quiet, found, done = train("--log-every", 0, "--summary-every", 5)
    wrong = [tag for tag in (*LOSSES, "precision @ 1") if found.get(tag) != shown[tag]]
    wrong += ["metrics.jsonl contains steps"] if programs.losses(quiet) else []
    wrong += ["steps are printed"] if "loss =" in done.output else []
    yield _result("--log-every 0: the same scalars and no step lines", "; ".join(wrong), "; ".join(LOSSES))
    _, found, _ = train("--summary-every", 0)
    yield _result("--summary-every 0: evaluations only", ", ".join(set(found) - set(SCORES)), f"{set(found)}")


def _beginning(run):
    """Returns what is wrong with the first events of the run's only event file; empty if nothing is wrong."""
    (path,) = events.files(run)
    first, second, *others = events.read_file(path)
    if (first.kind, first.content) != (events.VERSION, b"brain.Event:2"):
        return f"first is {first}"
    if second.kind != events.GRAPH or any(name.encode() not in second.content for name in VARIABLES):
        return "no graph follows, or the graph lacks the variables"
    return f"others: {others[:1]}" if {event.kind for event in others} != {events.SUMMARY} else ""


def _gradient(before, after, name, rate):
    old, new = (arrays[f"variables/{name}"].astype(np.float64) for arrays in (before, after))
    return (old - new) / rate


def _apart(what, histogram, array):
    """Returns {name: error} of the numbers in a histogram of `array`. The errors of the counts are absolute, and all
    other errors are relative. The error of the sum is relative to an upper bound of the sum of the absolute values."""
    values = array.astype(np.float64).ravel()
    largest, squares = abs(values).max(), (values**2).sum()
    return {
        f"{what}: count": abs(histogram.count - values.size) + abs(histogram.counts.sum() - values.size),
        f"{what}: min": abs(histogram.min - values.min()) / largest,
        f"{what}: max": abs(histogram.max - values.max()) / largest,
        f"{what}: sum": abs(histogram.sum - values.sum()) / np.sqrt(squares * values.size),
        f"{what}: sum of squares": _relative(histogram.sum_squares, squares),
    }


def _cifar10(context):
    """Tests cifar10_train with distortions, without mpirun: the summaries of its layers."""
    data, run = context.small_cifar10_set(2), context.directory("layers")
    context.train(
        *COMMON, "--batch-size", 8, "--max-steps", 6, "--log-every", 3, "--summary-every", 2,
        program="cifar10_train", data=data / "train-*.tfrecord", train_dir=run,
    )  # fmt: skip
    shown, steps = events.shown(run), [0, 2, 4, 5]  # every second step, and the last step
    names = [f"{layer}/{kind}" for layer in (*CONV, *DENSE) for kind in ("weights", "biases")]
    tags = ["total_loss", *LOSSES[1:], "local3/weight_loss", "local4/weight_loss", *names]
    tags += [f"{name}/gradients" for name in names] + [f"images/image/{number}" for number in range(3)]
    tags += [f"{layer}/{kind}" for layer in (*CONV, *DENSE) for kind in ("activations", "sparsity")]
    tags += ["examples_per_second", "gradient_norm"]
    yield _tags("cifar10_train", shown, {tag: steps for tag in tags} | {"options": [0]})

    losses, rates, gradients, sparsities = {}, {}, {}, {}
    for at, step in enumerate(steps):
        if step == 0:
            continue  # the run has no checkpoint before step 0
        before, after = load(checkpoint(run, step)), load(checkpoint(run, step + 1))
        value = {tag: shown[tag][at][1] for tag in tags}
        rate = RATE * DECAY ** (step // DECAY_STEPS)
        rates[f"step {step}"] = _relative(value["learning_rate"], rate)
        total = 0.0
        for layer in DENSE[:2]:
            expected = L2 / 2 * (before[f"variables/{layer}/weights"].astype(np.float64) ** 2).sum()
            total += expected
            losses[f"{layer} at {step}"] = _relative(value[f"{layer}/weight_loss"], expected)
        losses[f"total_loss at {step}"] = _relative(value["total_loss"], value["cross_entropy"] + total)
        for name in names:
            told = _gradient(before, after, name, rate)
            gradients |= _apart(f"{name} at {step}", value[f"{name}/gradients"], told)
        for layer in (*CONV, *DENSE):
            histogram, sparsity = value[f"{layer}/activations"], value[f"{layer}/sparsity"]
            sparsities[f"{layer} at {step}"] = abs(sparsity - _zeros(histogram) / histogram.count)
    yield _within("cifar10_train: weight losses and their share of the total loss", losses, FLOAT)
    yield _within("cifar10_train: learning rate", rates, FLOAT)
    yield _within("cifar10_train: histograms of gradients with the L2 part", gradients, UPDATE)
    yield _within("cifar10_train: sparsity equals the histogram of activations", sparsities, FLOAT)
    cut = [layer for layer in (*CONV, *DENSE[:2]) if any(item.min < 0 for _, item in shown[f"{layer}/activations"])]
    cut += [layer for layer in CONV if any(not 0 < item < 1 for _, item in shown[f"{layer}/sparsity"])]
    yield _result("cifar10_train: activations are taken after the ReLU", ", ".join(cut), "none below 0, some at 0")
    pictures = [image for number in range(3) for _, image in shown[f"images/image/{number}"]]
    good = len(set(pictures)) == len(pictures) and all(image.startswith(b"\x89PNG") for image in pictures)
    yield Result("events: cifar10_train: images", good, f"{len(pictures)} different PNG files")


def _zeros(histogram):
    """Returns the number of values in the bucket from 0 to 1e-12."""
    return sum(count for limit, count in zip(histogram.limits, histogram.counts) if 0 < limit <= 1e-12)


if __name__ == "__main__":
    programs.main(check)
