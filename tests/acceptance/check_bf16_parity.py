"""On a CPU, Carillon's gradients and logits in bf16 are as near to float64 results as the gradients and logits of
PyTorch's autocast. Carillon and PyTorch use equal variables and images.

Each network takes one step on a batch from the same initial variables. The step has no weight decay, so the velocities
after it are the gradients. The error is the distance of all gradients to the float64 gradients, divided by the norm of
the float64 gradients. Carillon's error may exceed PyTorch's error by 2 %, because single roundings are random. Then the
network trains for some steps in float32 and predicts in bf16. The table of predictions has the probabilities of the
five likeliest classes. The logarithm of the ratio of two probabilities is the difference of their logits. Needs torch
and all of CIFAR-10.
"""

import csv

import numpy as np

import cifar
from programs import Result, checkpoint, load, losses, main

BATCH = 64
BATCHES = {"resnet50": 16}
STEPS, PLACES = 20, 5
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MODELS = ("airbench94", "resnet9", "resnet18_cifar", "resnet50")
OPTIONS = (
    "--optimizer=nesterov", "--momentum=0.9", "--weight-decay=0", "--regularization=0", "--moving-average-decay=0",
    "--schedule=constant", "--learning-rate=0.01", "--shuffle=false", "--distort=false", "--log-every=1",
)  # fmt: skip


def check(context):
    """gradients in bf16 against float64 and PyTorch's autocast"""
    try:
        import reference_resnets as reference
    except ImportError as error:
        yield Result("bf16 parity", False, f"this Python has no {error.name}")
        return
    if context.cifar10 == cifar.SAMPLE.resolve():
        yield Result("bf16 parity", False, "needs all of CIFAR-10 (--cifar10): batches of 12 repeated images differ more")
        return
    paths = sorted(context.small_cifar10_set(BATCH).glob("train-*.tfrecord"))
    batches = cifar.read_batches(context.cifar10)
    all_records = np.concatenate([batches[name][:BATCH] for name in cifar.TRAIN])
    records = all_records[:BATCH]
    for model in MODELS[:1] if context.quick else MODELS:
        start, run = context.directory("start"), context.directory("run")
        count = BATCHES.get(model, BATCH)
        of_model = ("--model", model, "--batch-size", count, *OPTIONS)
        context.train(*of_model, "--max-steps=0", program="cifar10_train", data=paths, train_dir=start)
        initial = checkpoint(start, 0)
        context.train(
            *of_model, "--init-from", initial, "--max-steps=1", "--precision=bf16", program="cifar10_train", data=paths,
            train_dir=run, timeout=600,
        )  # fmt: skip
        images, labels = records[:count, 1:].reshape(-1, 3, 32, 32), records[:count, 0].astype(np.int64)
        found = _part(load(checkpoint(run, 1)), f"{reference.VELOCITIES}/")
        exact, loss = reference.first_gradients(model, load(initial), images, labels)
        autocast, autocast_loss = reference.first_gradients(model, load(initial), images, labels, autocast=True)
        ours, theirs = _distance(found, exact), _distance(autocast, exact)
        of_loss, of_their_loss = abs(losses(run)[0] / loss - 1), abs(autocast_loss / loss - 1)
        yield Result(
            f"bf16 parity: gradients of {model}, batch {count}", ours <= 1.02 * theirs,
            f"error {ours:.3f}, PyTorch's autocast {theirs:.3f}; of the loss {of_loss:.1e}, {of_their_loss:.1e}",
        )  # fmt: skip
        trained = context.directory("trained")
        table = trained.with_suffix(".csv")
        context.train(
            *of_model, "--init-from", initial, f"--max-steps={STEPS}", "--precision=fp32", program="cifar10_train", data=paths,
            train_dir=trained, timeout=600,
        )  # fmt: skip
        context.run("cifar10_eval", "--data", *paths, "--checkpoint", trained, "--precision=bf16", "--predictions", table)
        images = all_records[:, 1:].reshape(-1, 3, 32, 32)
        found, classes = _differences(table)
        arrays = load(checkpoint(trained, STEPS))
        exact, autocast = (
            _of_classes(reference.logits(model, arrays, images, autocast=rounds), classes) for rounds in (False, True)
        )
        ours, theirs = (np.linalg.norm(other - exact) / np.linalg.norm(exact) for other in (found, autocast))
        yield Result(
            f"bf16 parity: logits of {model}", ours <= 1.02 * theirs, f"error {ours:.4f}, PyTorch's autocast {theirs:.4f}"
        )


def _differences(table):
    """Returns (differences, classes). `classes`: the likeliest classes of each record, likeliest first. `differences`:
    for each class except the first, its logit minus the logit of the first class."""
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    classes = np.array([[CLASSES.index(row[f"class_{place}"]) for place in range(1, PLACES + 1)] for row in rows])
    logs = np.log([[float(row[f"probability_{place}"]) for place in range(1, PLACES + 1)] for row in rows])
    return logs[:, 1:] - logs[:, :1], classes


def _of_classes(logits, classes):
    taken = np.take_along_axis(logits, classes, axis=1)
    return taken[:, 1:] - taken[:, :1]


def _part(arrays, prefix):
    return {name[len(prefix) :]: values.astype(np.float64) for name, values in arrays.items() if name.startswith(prefix)}


def _distance(found, exact):
    differences = sum(float(((found[name] - values) ** 2).sum()) for name, values in exact.items())
    return np.sqrt(differences / sum(float((values**2).sum()) for values in exact.values()))


if __name__ == "__main__":
    main(check)
