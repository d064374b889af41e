"""cifar10_train and cifar10_eval of today's networks against float64 PyTorch, from one initial checkpoint.

Without distortion, at 1 and 2 ranks, each normalising by its own batch. Limit: 1e-3 of the distance travelled, of each
variable and running statistic, or, where float32 rounds and decides ReLUs otherwise by more, twice what PyTorch's own
float32 run is off. Rates are low, lest such decisions grow from step to step. Needs torch.
"""

import re
from dataclasses import dataclass, field

import numpy as np

import programs
from programs import Result, checkpoint, load

LIMIT, LOSS_LIMIT, OF_FLOAT32 = 1e-3, 1e-4, 2
GLOBAL_BATCH = 16
STEPS = 12
PARAMETERS = {"resnet18": 11173962, "resnet9": 6573120, "airbench94": 1971640, "airbench96": 9915704}


@dataclass(frozen=True)
class Recipe:
    batch_size: int
    label_smoothing: float = 0.2
    peak: float = 0.0005
    sgd: dict = field(default_factory=lambda: {"momentum": 0.9, "nesterov": True, "weight_decay": 5e-3})
    groups: tuple = ()

    def rate(self, step):
        return float(np.interp(step, [0, 4, STEPS], [0.2 * self.peak, self.peak, 0.0]))

    def options(self):
        knots = f"0:{0.2 * self.peak!r},4:{self.peak!r},{STEPS}:0"
        return (
            "--optimizer=nesterov", f"--momentum={self.sgd['momentum']}", f"--weight-decay={self.sgd['weight_decay']}",
            *(["--group", *map(_group_text, self.groups)] if self.groups else []), "--schedule=triangular",
            f"--schedule-knots={knots}", "--regularization=0", "--moving-average-decay=0",
            f"--label-smoothing={self.label_smoothing}", f"--batch-size={self.batch_size}",
        )  # fmt: skip


def _group_text(group):
    """As --group takes it."""
    settings = {"rate": "rate", "weight_decay": "decay", "frozen_after": "frozen-after"}
    return f"{group['pattern']}: " + ", ".join(f"{settings[n]}={v!r}" for n, v in group.items() if n in settings)


def _recipe(model, batch_size):
    """airbench's groups and constants; rates as low as the others' are."""
    if not model.startswith("airbench"):
        return Recipe(batch_size)
    return Recipe(
        batch_size,
        sgd={"momentum": 0.85, "nesterov": True, "weight_decay": 1.33e-3},
        groups=(
            {"pattern": "*/beta", "rate": 64.0, "weight_decay": 2.08e-5},
            {"pattern": "whiten/biases", "frozen_after": 8},
        ),
    )


def check(context):
    """parity of today's networks with float64 PyTorch"""
    try:
        import reference_resnets as reference
    except ImportError as error:
        yield Result("parity: today's networks", False, f"this Python has no {error.name}")
        return
    data = context.small_cifar10_set(100)
    paths = sorted(data.glob("train-*.tfrecord"))
    for model in reference.MODELS:
        start = context.directory(model)
        context.train(
            "--model", model, "--max-steps", 0, "--distort=false", program="cifar10_train", data=paths, train_dir=start
        )
        yield _initial_values(reference, model, load(checkpoint(start, 0)), paths)
        for ranks in (2,) if context.quick else (1, 2):
            yield from _compare(context, reference, model, paths, checkpoint(start, 0), ranks)


def _without_dirac(values, wrong, name):
    """The filters that are drawn; notes what is not as dirac filters are."""
    dirac = min(values.shape[2:])
    expected = np.zeros_like(values[..., :dirac])
    expected[1, 1, range(dirac), range(dirac)] = 1
    if not np.array_equal(values[..., :dirac], expected):
        wrong.append(f"{name} begins otherwise than the identity")
    return values[..., dirac:]


def _initial_values(reference, model, arrays, paths):
    wrong = []
    variables = {n: a for n, a in arrays.items() if n.startswith("variables/")}
    count = sum(a.size for a in variables.values())
    if count != PARAMETERS[model]:
        wrong.append(f"{count} parameters")
    for name, values in variables.items():
        if not name.endswith("/weights"):
            continue
        bound = 1 / np.sqrt(values.size // values.shape[-1])
        if name == "variables/whiten/weights":
            images = reference.inputs_of(reference.MODELS[model], reference.read_set(paths)[0])
            expected = reference.whitening_filters(images)
            if not np.allclose(values, expected, rtol=1e-4, atol=1e-4):
                wrong.append(f"{name}: off numpy's by {abs(values - expected).max():.1e}")
            continue
        if model.startswith("airbench") and values.ndim == 4:
            values = _without_dirac(values, wrong, name)
            if values.size == 0:
                continue
        largest, deviation = abs(values).max() / bound, values.std() / bound * np.sqrt(3)
        if not (0.95 < largest <= 1 and abs(deviation - 1) < 0.03):
            wrong.append(f"{name}: largest {largest:.4f}, deviation {deviation:.4f} of PyTorch's")
    return Result(f"parity: {model}'s initial values", not wrong, "; ".join(wrong[:3]) or f"{count} parameters")


def _compare(context, reference, model, paths, initial, ranks):
    recipe = _recipe(model, GLOBAL_BATCH // ranks)
    run = context.directory(f"{model}-{ranks}")
    context.train(
        "--model", model, "--init-from", initial, "--shuffle=false", "--distort=false", "--log-every=1",
        f"--max-steps={STEPS}", "--convolution=direct", *recipe.options(), program="cifar10_train", data=paths, train_dir=run, ranks=ranks,
    )  # fmt: skip
    expected = reference.train(model, paths, initial, recipe, ranks, STEPS)
    rounded = reference.train(model, paths, initial, recipe, ranks, STEPS, reference.torch.float32)
    found = load(checkpoint(run, STEPS))
    title = f"parity: {model}, {ranks} x {recipe.batch_size}, {STEPS} steps"
    for group in ("variables", "state"):
        names = [name for name in expected.arrays if name.startswith(f"{group}/")]
        missing = [name for name in names if name not in found]
        frozen = [name for name in names if np.array_equal(expected.arrays[name], expected.initial[name])]
        changed = [name for name in frozen if name in found and not np.array_equal(found[name], expected.initial[name])]
        names = [name for name in names if name not in frozen]

        def worst_error(arrays):
            return programs.worst(
                programs.relative_error(arrays[name], expected.arrays[name], expected.initial[name]) for name in names
            )

        if missing:
            yield Result(f"{title}, {group}", False, f"missing: {missing[:2]}")
            continue
        if [f"{group}/{name}" for name in reference.MODELS[model].frozen if group == "variables"] != frozen or changed:
            yield Result(f"{title}, {group}", False, f"frozen: {frozen}, and of them changed: {changed}")
            continue
        error, of_float32 = worst_error(found), worst_error(rounded.arrays)
        passed = np.isfinite(error) and error <= max(LIMIT, OF_FLOAT32 * of_float32)
        yield Result(f"{title}, {group}", passed, f"{len(names)} to {error:.1e}; PyTorch in float32: {of_float32:.1e}")
    losses = [line["loss"] for line in programs.metrics(run)]
    error, of_float32 = (
        max((abs(a - b) / b for a, b in zip(of_run, expected.losses)), default=1.0) for of_run in (losses, rounded.losses)
    )
    passed = len(losses) == STEPS and error <= max(LOSS_LIMIT, OF_FLOAT32 * of_float32)
    yield Result(f"{title}, losses", passed, f"to {error:.1e}; PyTorch in float32: {of_float32:.1e}")
    images, labels = reference.read_set(paths)
    for options in ((), ("--test-time-augmentation",)):
        right = reference.count_right(model, checkpoint(run, STEPS), images, labels, augmented=bool(options))
        done = context.run("cifar10_eval", "--data", *paths, "--checkpoint", run, *options, ranks=ranks)
        precision = re.search(r"\((\d+)/(\d+)\)", done.output)
        passed = precision is not None and abs(int(precision[1]) - right) <= 1 and int(precision[2]) == len(labels)
        kind = "augmented evaluation" if options else "evaluation"
        yield Result(f"{title}, {kind}", passed, f"{precision and precision[0]}; PyTorch: {right} right")


if __name__ == "__main__":
    programs.main(check)
