"""Compares cifar10_train and cifar10_eval with float64 PyTorch, from the same initial checkpoint, at 1 and 2 ranks.

The images are not distorted: the inputs are centre crops. The check covers both convolution methods. The error of a
variable or moving average may be at most 2e-3 of its change since the initial checkpoint. The relative error of a
logged loss may be at most 1e-4. The check chooses a seed for which rounding never changes the position of the largest
element in a pooling window (reference_cifar10.py). Needs torch.
"""

import re
from dataclasses import dataclass, replace

import numpy as np

import parity
import programs
from programs import Result, checkpoint, load
from reference_training import read_variables
from tfrecords import read_records, write_records

LIMIT = 2e-3
GLOBAL_BATCH = 32
MAX_SEED = 60


@dataclass(frozen=True)
class Method:
    """A convolution method, the number of steps to compare, and the smallest allowed distance to a tie
    (reference_cifar10.py)."""

    name: str
    steps: int
    clear: float  # least distance to a tie: about 3 times the rounding error of norm2's output


# The rounding error of Winograd's method is about five times larger than the error of the direct method, so runs with
# this method must keep a larger distance to ties. Few seeds keep this distance over many steps, so fewer steps are
# compared.
METHODS = (Method("direct", 12, 1e-6), Method("winograd", 6, 5e-6))
PLAIN = ("--distort=false",)
# With these large values, an error in the code of the decay, the regularisation or the averaging exceeds the limit.
SCHEDULE = {
    "learning_rate": 0.05,
    "learning_rate_decay": 0.5,
    "decay_steps": 5,
    "regularization": 0.04,
    "moving_average_decay": 0.7,
}


def check(context):
    """parity with float64 PyTorch"""
    try:
        import reference_cifar10 as reference
    except ImportError as error:
        yield Result("parity: CIFAR-10", False, f"this Python has no {error.name}")
        return
    yield _lrn_is_pytorchs(reference)
    data = context.small_cifar10_set(100)
    paths = sorted(data.glob("train-*.tfrecord"))
    initial = _initial(context, paths, 1)
    yield _initial_values(reference, load(initial))
    methods = METHODS if context.device == "cpu" else METHODS[:1]  # Carillon implements Winograd's method only on CPUs
    for method in methods:
        for title, settings in (("defaults", {}), ("schedule", SCHEDULE)):
            recipe = reference.Recipe(batch_size=GLOBAL_BATCH, **settings)
            yield from _compare(context, reference, recipe, method, f"CIFAR-10 {title}, {method.name}", paths)
    yield from _evaluation(context, reference, data)


def _compare(context, reference, recipe, method, title, paths):
    seed, initial = comparable(context, reference, recipe, paths, method)
    if not seed:
        yield Result(f"parity: {title}", False, f"none of {MAX_SEED} seeds avoids ties in pool2")
        return
    for ranks in (2,) if context.quick else (1, 2):
        part = replace(recipe, batch_size=GLOBAL_BATCH // ranks)
        yield from parity.compare(
            context, f"{title}, seed {seed}", "cifar10_train", reference, part, method.steps, ranks, paths, initial,
            LIMIT, (*PLAIN, "--convolution", method.name),
        )  # fmt: skip


def _initial(context, paths, seed):
    run = context.directory("initial")
    context.train("--max-steps", 0, "--seed", seed, *PLAIN, program="cifar10_train", data=paths, train_dir=run, device="cpu")
    return checkpoint(run, 0)


def comparable(context, reference, recipe, paths, method):
    """Finds the first seed with which the run avoids ties (reference_cifar10.py). Returns the seed and the initial
    checkpoint of its run."""
    for seed in range(1, MAX_SEED + 1):
        initial = _initial(context, paths, seed)
        if reference.train(paths, initial, recipe, 1, method.steps).closest_call > method.clear:
            return seed, initial
    return None, None


def _lrn_is_pytorchs(reference):
    """Checks that the reference's LRN equals PyTorch's LRN. PyTorch, cuDNN and oneDNN divide alpha by the window
    size."""
    import torch

    x = torch.randn(2, 64, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 30
    theirs = torch.nn.functional.local_response_norm(x, size=9, alpha=0.001, beta=0.75, k=1.0)
    error = float((reference.lrn(x) - theirs).abs().max() / theirs.abs().max())
    return Result("parity: the reference's LRN is PyTorch's", error < 1e-12, f"to {error:.1e}")


def _initial_values(reference, arrays):
    wrong = []
    for layer, shape in reference.SHAPES.items():
        weights, biases = arrays[f"variables/{layer}/weights"], arrays[f"variables/{layer}/biases"]
        if weights.shape != shape or biases.shape != shape[-1:]:
            wrong.append(f"{layer}: shapes {weights.shape}, {biases.shape}")
        elif not parity.is_truncated_normal(weights, reference.WEIGHT_STDDEVS[layer]):
            wrong.append(f"{layer}/weights: deviation {weights.std():.5f}, largest {abs(weights).max():.5f}")
        elif not (biases == np.float32(reference.BIASES[layer])).all():
            wrong.append(f"{layer}/biases: {biases[:3]}")
    names = {f"{group}/{name}" for group in ("variables", "moving_averages") for name in reference.VARIABLES}
    if names ^ arrays.keys():
        wrong.append(f"names: {sorted(names ^ arrays.keys())}")
    else:
        unequal = [n for n in reference.VARIABLES if (arrays[f"variables/{n}"] != arrays[f"moving_averages/{n}"]).any()]
        wrong += [f"average of {name}" for name in unequal]
    detail = "; ".join(wrong) or "names, shapes, truncated normals, biases; averages = variables"
    return Result("parity: CIFAR-10 initial values", not wrong, detail)


def _evaluation(context, reference, data):
    """Evaluates a network after a short training. The number of records is not divisible by 2 or 3, so some ranks
    evaluate fewer records."""
    train_dir = context.directory("cifar-eval")
    paths = sorted(data.glob("train-*.tfrecord"))
    context.train(
        "--batch-size", 32, "--max-steps", 30, "--learning-rate", 0.05, "--moving-average-decay", 0.8, *PLAIN,
        program="cifar10_train", data=paths, train_dir=train_dir,
    )  # fmt: skip
    odd = context.directory("odd")
    records = [data for path in paths for data in read_records(path)]
    write_records(odd, records[: len(records) // 6 * 6 - 1])
    images, labels = reference.read_set([odd])
    for group, options in (("moving_averages", ()), ("variables", ("--raw-weights",))):
        variables = read_variables(checkpoint(train_dir, 30), reference.VARIABLES, group)
        right = reference.count_right(variables, images, labels)
        expected = f"precision @ 1 = {right / len(labels):.3f} ({right}/{len(labels)})"
        for ranks in (0, 2, 3):
            done = context.run("cifar10_eval", "--data", odd, "--checkpoint", train_dir, *options, ranks=ranks)
            found = re.findall(r"precision @ 1 = .*", done.output)
            title = f"parity: cifar10_eval of {group}, {ranks or 1} ranks"
            yield Result(title, found == [expected], f"{found} (PyTorch: {expected})")


if __name__ == "__main__":
    programs.main(check)
