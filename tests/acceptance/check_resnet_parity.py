"""cifar10_train and cifar10_eval of today's networks, at 32 x 32, against float64 PyTorch, from one initial checkpoint.

Without distortion, at 1 and 2 ranks: each normalising by its own batch, both by one batch (--sync-batch-norm), and in
micro-batches. Limit: 1e-3 of the distance travelled, of each variable and running statistic, or, where float32 rounds
and decides otherwise by more, twice what PyTorch's own float32 run is off.

Rates are low. A ReLU or a pooling of a value near a tie decides by rounding: noise of 1e-7 on variables and images moves
the float64 gradient of resnet9, 1 to 10 steps on at a rate of 0.01, by 4e-7 in most draws and by 1e-3 to 5e-3 in
others, and float32 (ours off by 3e-6 to 9e-3, PyTorch's by 3e-6 to 1e-2) takes part in that lottery. At high rates such
decisions grow from step to step. Needs torch.
"""

import re
from dataclasses import dataclass, field

import numpy as np

import programs
from programs import Result, checkpoint, load

LIMIT, LOSS_LIMIT, OF_FLOAT32 = 1e-3, 1e-4, 2
GLOBAL_BATCH = 16
STEPS = 12
PARAMETERS = {
    "resnet50": 23528522, "resnet18": 11173962, "resnet9": 6573120, "airbench94": 1971640, "airbench96": 9915704,
}  # fmt: skip
CUT_DEVIATION = 0.87962566103423978  # of a normal distribution cut at two deviations


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
            f"--label-smoothing={self.label_smoothing}",
        )  # fmt: skip


def _group_text(group):
    """As --group takes it."""
    settings = {"rate": "rate", "weight_decay": "decay", "frozen_after": "frozen-after"}
    return f"{group['pattern']}: " + ", ".join(f"{settings[n]}={v!r}" for n, v in group.items() if n in settings)


@dataclass(frozen=True)
class Towers:
    """How a global batch is taken, and by how many towers of the reference: batches that are normalised apart."""

    name: str
    ranks: int
    options: tuple
    reference: int


def _ways(quick):
    """All that are to end as the reference does, the quick form's first."""
    own = ("--batch-size", GLOBAL_BATCH // 2)
    ways = (
        Towers("2 ranks", 2, own, 2),
        Towers("2 ranks, one batch norm", 2, (*own, "--sync-batch-norm"), 1),
        Towers("1 rank", 1, ("--batch-size", GLOBAL_BATCH), 1),
        Towers("2 ranks, micro-batches", 2, ("--global-batch", GLOBAL_BATCH, "--micro-batch", GLOBAL_BATCH // 4), 4),
    )
    return ways[:2] if quick else ways


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
        for towers in _ways(context.quick):
            yield from _compare(context, reference, model, paths, checkpoint(start, 0), towers)


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
        if model == "resnet50":
            wrong += _faults_of_resnet50(name, values)
            continue
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


def _faults_of_resnet50(name, values):
    if name.endswith("/gamma"):
        expected = 0.0 if name.endswith("/conv3/norm/gamma") else 1.0
        return [] if (values == expected).all() else [f"{name} is not {expected}"]
    if not name.endswith("/weights"):
        return []
    expected = 0.01 if name == "variables/logits/weights" else np.sqrt(2 / (values.size / values.shape[2]))
    largest, deviation = abs(values).max() * CUT_DEVIATION / expected, values.std() / expected
    good = 1.8 < largest <= 2.00001 and abs(deviation - 1) < 0.03
    return [] if good else [f"{name}: largest {largest:.4f}, deviation {deviation:.4f} of He's"]


def _compare(context, reference, model, paths, initial, towers):
    recipe = _recipe(model, GLOBAL_BATCH // towers.reference)
    run = context.directory(model)
    context.train(
        "--model", model, "--init-from", initial, "--shuffle=false", "--distort=false", "--log-every=1",
        f"--max-steps={STEPS}", "--convolution=direct", *recipe.options(), *towers.options, program="cifar10_train",
        data=paths, train_dir=run, ranks=towers.ranks,
    )  # fmt: skip
    expected = reference.train(model, paths, initial, recipe, towers.reference, STEPS)
    rounded = reference.train(model, paths, initial, recipe, towers.reference, STEPS, reference.torch.float32)
    found = load(checkpoint(run, STEPS))
    title = f"parity: {model}, {towers.name}, {STEPS} steps"
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
    if towers.reference != towers.ranks:  # what evaluations are has been seen
        return
    images, labels = reference.read_set(paths)
    for options in ((), ("--test-time-augmentation",)):
        right = reference.count_right(model, checkpoint(run, STEPS), images, labels, augmented=bool(options))
        done = context.run("cifar10_eval", "--data", *paths, "--checkpoint", run, *options, ranks=towers.ranks)
        precision = re.search(r"\((\d+)/(\d+)\)", done.output)
        passed = precision is not None and abs(int(precision[1]) - right) <= 1 and int(precision[2]) == len(labels)
        kind = "augmented evaluation" if options else "evaluation"
        yield Result(f"{title}, {kind}", passed, f"{precision and precision[0]}; PyTorch: {right} right")


if __name__ == "__main__":
    programs.main(check)
