"""Compares modern networks with float64 PyTorch, step by step: cifar10_train and cifar10_eval at 32 x 32, and
image_train and image_eval with ImageNet's ResNets at 64 x 64.

PyTorch computes each step from the run's own checkpoint before the step, so that errors do not accumulate. The runs
have no distortion and use 1 or 2 ranks. Batch norms use the batch of a rank, the batch of all ranks (--sync-batch-norm)
or micro-batches. airbench also uses lookahead. Errors are relative to the change of each array in the step. The limit
is 1e-3 for variables, slow copies and running statistics. PyTorch computes the variables from the velocities of the
run. Velocities contain the gradients. If an input of a ReLU or a pooling is near a tie, rounding may change the
gradients. Therefore the error of velocities may be up to 0.05 in any step, but must be at most 1e-4 in at least one
step.

Example: in the first step of resnet9, one of the 65,536 inputs of the ReLU in layer3/residual1 is 2e-7, and rounding
errors in float32 are 9e-7. With AVX-512, the sign of this input changes, and gradients have an error of 2e-3. With
--isa=avx2 and in PyTorch's float32, the sign does not change, and gradients have errors of at most 2e-6. This happened
in 6 of 12 steps of 8 images, with errors up to 1e-2. After 12 consecutive steps, PyTorch in float32 had errors of 8e-4
to 2e-2, depending on the batches. Needs torch.
"""

import json
import re
from dataclasses import dataclass, field

import numpy as np

import cifar
import programs
from png import png
from programs import Result, checkpoint, load
from tfrecords import parse_example, read_records

LIMIT, LOSS_LIMIT, GRADIENT_LIMIT, OF_A_DECISION = 1e-3, 1e-6, 1e-4, 0.05
STEPS = 12
PARAMETERS = {
    "resnet18": 11181642, "resnet34": 21289802, "resnet50": 23528522, "resnet101": 42520650, "resnet152": 58164298, "resnet18_cifar": 11173962, "resnet9": 6573120, "airbench94": 1971640,
    "airbench96": 9915704,
}  # fmt: skip
BASIC, BOTTLENECK = "/conv2/norm/gamma", "/conv3/norm/gamma"  # names of the last gamma of a block
IMAGENET = {
    "resnet18": BASIC, "resnet34": BASIC, "resnet50": BOTTLENECK, "resnet101": BOTTLENECK, "resnet152": BOTTLENECK
}  # fmt: skip
CUT_DEVIATION = 0.87962566103423978  # standard deviation of a standard normal distribution that is truncated at +-2


@dataclass(frozen=True)
class Recipe:
    batch_size: int
    label_smoothing: float = 0.2
    peak: float = 0.05
    sgd: dict = field(default_factory=lambda: {"momentum": 0.9, "nesterov": True, "weight_decay": 5e-3})
    groups: tuple = ()
    lookahead: dict = field(default_factory=dict)  # every, decay, power; empty: no lookahead

    def rate(self, step):
        return float(np.interp(step, [0, 4, STEPS], [0.2 * self.peak, self.peak, 0.0]))

    def options(self):
        knots = f"0:{0.2 * self.peak!r},4:{self.peak!r},{STEPS}:0"
        return (
            "--optimizer=nesterov", f"--momentum={self.sgd['momentum']}", f"--weight-decay={self.sgd['weight_decay']}",
            *(["--group", *map(_group_text, self.groups)] if self.groups else []), "--schedule=triangular",
            f"--schedule-knots={knots}", "--regularization=0", "--moving-average-decay=0",
            f"--label-smoothing={self.label_smoothing}",
            *(f"--lookahead-{name}={value!r}" for name, value in self.lookahead.items()),
            *([f"--lookahead-steps={STEPS}"] if self.lookahead else []),
        )  # fmt: skip


def _group_text(group):
    """Returns the group as a value of the option --group."""
    settings = {"rate": "rate", "weight_decay": "decay", "frozen_after": "frozen-after"}
    return f"{group['pattern']}: " + ", ".join(f"{settings[n]}={v!r}" for n, v in group.items() if n in settings)


@dataclass(frozen=True)
class Subject:
    """A network, its training program, and its data."""

    title: str
    model: str
    train: str
    evaluate: str
    paths: list  # paths of the record files
    options: tuple = ()
    augments: bool = False


@dataclass(frozen=True)
class Towers:
    """A way to divide a global batch: the number of ranks, their options, and the number of towers in the reference.
    Each tower of the reference normalises by its own batch."""

    name: str
    ranks: int
    options: tuple
    reference: int


def _global_batch(model):
    """Returns the global batch of a comparison. Networks with bottlenecks need a larger batch: at 32 x 32, the last
    convolutions of resnet50 compute one pixel per image. A batch norm over fewer than 4 images would return mostly
    rounding errors."""
    return 16 if IMAGENET.get(model) == BOTTLENECK else 8


def _ways(global_batch, quick):
    """Returns the ways to divide a batch that the check compares with the reference. The quick form uses only the first
    two ways."""
    own = ("--batch-size", global_batch // 2)
    ways = (
        Towers("2 ranks", 2, own, 2),
        Towers("2 ranks, one batch norm", 2, (*own, "--sync-batch-norm"), 1),
        Towers("1 rank", 1, ("--batch-size", global_batch), 1),
        Towers("2 ranks, micro-batches", 2, ("--global-batch", global_batch, "--micro-batch", global_batch // 4), 4),
    )
    return ways[:2] if quick else ways


def _recipe(model, batch_size):
    """Returns the Recipe of a model. For airbench, it has airbench's parameter groups, constants and lookahead."""
    if not model.startswith("airbench"):
        return Recipe(batch_size)
    return Recipe(
        batch_size,
        sgd={"momentum": 0.85, "nesterov": True, "weight_decay": 1.33e-3},
        groups=(
            {"pattern": "*/beta", "rate": 64.0, "weight_decay": 2.08e-5},
            {"pattern": "whiten/biases", "frozen_after": 8},
        ),
        lookahead={"every": 5, "decay": 0.95**5, "power": 3},
    )


def check(context):
    """parity of modern networks with float64 PyTorch"""
    try:
        import reference_resnets as reference
    except ImportError as error:
        yield Result("parity: modern networks", False, f"this Python has no {error.name}")
        return
    paths = sorted(context.small_cifar10_set(40).glob("train-*.tfrecord"))
    of_cifar = [model for model in reference.MODELS if model not in IMAGENET or model == "resnet50"]
    subjects = [Subject(model, model, "cifar10_train", "cifar10_eval", paths, (), True) for model in of_cifar]
    pictures = sorted(_picture_set(context).glob("train-*.tfrecord"))
    for model in IMAGENET:
        size = ("--image-size=64",)
        subjects.append(Subject(f"{model} at 64 x 64", model, "image_train", "image_eval", pictures, size))
    for subject in subjects:
        start = context.directory("start")
        context.train(
            "--model", subject.model, "--max-steps", 0, "--distort=false", *subject.options, program=subject.train,
            data=subject.paths, train_dir=start,
        )  # fmt: skip
        records = _records_seen(context, reference, subject, checkpoint(start, 0))
        yield _initial_values(reference, subject, load(checkpoint(start, 0)), records[0])
        for towers in _ways(_global_batch(subject.model), context.quick):
            yield from _compare(context, reference, subject, records, checkpoint(start, 0), towers)


def _picture_set(context):
    """Makes records of 40 pictures of 64 x 64 pixels, from one folder per label. Returns their directory."""
    records = next(iter(cifar.read_batches(context.cifar10).values()))[:40]
    folder = context.directory("pictures")
    for number, record in enumerate(records):
        path = folder / str(record[0]) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(record[1:].reshape(3, 32, 32).transpose(1, 2, 0).repeat(2, axis=0).repeat(2, axis=1)))
    target = context.directory("picture-records")
    context.run("tfrecord_convert", "images", "--input", folder, "--output", target)
    return target


def _records_seen(context, reference, subject, initial):
    """Returns (images [count, 3, height, width] uint8, labels [count]) in the order of the records. For pictures, the
    images are the network inputs that carillon_predict writes. Other tests check its crop and resize."""
    if subject.train == "cifar10_train":
        return reference.read_set(subject.paths)
    keys = ("image/encoded", "image/class/label")
    examples = [parse_example(data, keys) for path in subject.paths for data in read_records(path)]
    folder = context.directory("seen")
    folder.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(examples):
        (folder / f"{number:04}.png").write_bytes(example["image/encoded"])
    seen = folder / "seen.npz"
    done = context.run("carillon_predict", "--json", "--checkpoint", initial, "--images", seen, folder)
    files = [json.loads(line)["file"] for line in done.output.splitlines() if line.startswith("{")]
    if files != sorted(files) or len(files) != len(examples):
        raise ValueError(f"carillon_predict lists {len(files)} pictures, not {len(examples)} in order")
    first = int(json.loads((subject.paths[0].parent / "records.json").read_text())["first_label"])
    labels = np.array([example["image/class/label"][0] for example in examples]) - first
    return np.load(seen)["images"].astype(np.uint8), labels


def _without_dirac(values, wrong, name):
    """Returns the filters of a convolution without the first filters, which must be the identity
    (torch.nn.init.dirac_). If the first filters are not the identity, appends an error to `wrong`."""
    dirac = min(values.shape[2:])
    expected = np.zeros_like(values[..., :dirac])
    expected[1, 1, range(dirac), range(dirac)] = 1
    if not np.array_equal(values[..., :dirac], expected):
        wrong.append(f"{name} does not begin with the identity")
    return values[..., dirac:]


def _initial_values(reference, subject, arrays, images):
    model, wrong = subject.model, []
    variables = {n: a for n, a in arrays.items() if n.startswith("variables/")}
    count = sum(a.size for a in variables.values())
    if count != PARAMETERS[model]:
        wrong.append(f"{count} parameters")
    for name, values in variables.items():
        if model in IMAGENET:
            wrong += _faults_of_imagenet_resnet(model, name, values)
            continue
        if not name.endswith("/weights"):
            continue
        bound = 1 / np.sqrt(values.size // values.shape[-1])
        if name == "variables/whiten/weights":
            expected = reference.whitening_filters(reference.inputs_of(reference.MODELS[model], images))
            if not np.allclose(values, expected, rtol=1e-4, atol=1e-4):
                wrong.append(f"{name}: differs from numpy's by {abs(values - expected).max():.1e}")
            continue
        if model.startswith("airbench") and values.ndim == 4:
            values = _without_dirac(values, wrong, name)
            if values.size == 0:
                continue
        largest, deviation = abs(values).max() / bound, values.std() / bound * np.sqrt(3)
        if not (0.95 < largest <= 1 and abs(deviation - 1) < 0.03):
            wrong.append(f"{name}: largest {largest:.4f}, deviation {deviation:.4f} of PyTorch's")
    return Result(f"parity: {subject.title}, initial values", not wrong, "; ".join(wrong[:3]) or f"{count} parameters")


def _faults_of_imagenet_resnet(model, name, values):
    if name.endswith("/gamma"):
        expected = 0.0 if name.endswith(IMAGENET[model]) else 1.0
        return [] if (values == expected).all() else [f"{name} is not {expected}"]
    if not name.endswith("/weights"):
        return []
    expected = 0.01 if name == "variables/logits/weights" else np.sqrt(2 / (values.size / values.shape[2]))
    largest, deviation = abs(values).max() * CUT_DEVIATION / expected, values.std() / expected
    good = 1.8 < largest <= 2.00001 and abs(deviation - 1) < 0.03
    return [] if good else [f"{name}: largest {largest:.4f}, deviation {deviation:.4f} of He's"]


def _start(reference, initial, names):
    """Returns all arrays before the first step of a run, computed from the variables and running statistics of the
    initial checkpoint."""
    arrays = {}
    for name in names:
        of = name.replace(reference.SLOW, "variables")
        if name.startswith(reference.VELOCITIES):
            arrays[name] = np.zeros_like(initial[name.replace(reference.VELOCITIES, "variables")])
        else:
            arrays[name] = initial[of if of in initial else name.replace(reference.SLOW, "state")]
    return arrays


def _error(found, expected, before):
    """Returns the error of an array, relative to its change in the step. If the step must not change the array, for
    example a frozen variable, the error is infinite unless the bits are equal."""
    if np.array_equal(expected, before):
        return 0.0 if np.array_equal(found, before) else np.inf
    return programs.relative_error(found, expected, before)


def _compare(context, reference, subject, records, initial, towers):
    model, recipe = subject.model, _recipe(subject.model, _global_batch(subject.model) // towers.reference)
    run = context.directory("run")
    context.train(
        "--model", model, "--init-from", initial, "--shuffle=false", "--distort=false", "--log-every=1",
        f"--max-steps={STEPS}", "--checkpoint-every=1", "--keep-checkpoints=0", "--convolution=direct",
        *recipe.options(), *towers.options, *subject.options, program=subject.train, data=subject.paths, train_dir=run,
        ranks=towers.ranks, timeout=600,
    )  # fmt: skip
    title = f"parity: {subject.title}, {towers.name}, {STEPS} steps"
    errors, expected_losses = _errors_by_step(reference, model, recipe, towers, run, load(initial), records)
    yield from _judge(title, errors, expected_losses, [line["loss"] for line in programs.metrics(run) if "loss" in line])
    # Checks the evaluation only for runs with one tower per rank.
    if towers.reference != towers.ranks:
        return
    for options in ((), ("--test-time-augmentation",)) if subject.augments else ((),):
        right = reference.count_right(model, checkpoint(run, STEPS), *records, augmented=bool(options))
        done = context.run(
            subject.evaluate, "--data", *subject.paths, "--checkpoint", run, *options, ranks=towers.ranks
        )
        precision = re.search(r"\((\d+)/(\d+)\)", done.output)
        passed = precision is not None and abs(int(precision[1]) - right) <= 1 and int(precision[2]) == len(records[1])
        kind = "augmented evaluation" if options else "evaluation"
        yield Result(f"{title}, {kind}", passed, f"{precision and precision[0]}; PyTorch: {right} right")


def _errors_by_step(reference, model, recipe, towers, run, initial, records):
    """Returns {group: list of the largest error in each step}, and the expected losses. Deletes all checkpoints of the
    run except the last one."""
    of_group = {
        "velocities": lambda name: name.startswith(reference.VELOCITIES),
        "variables": lambda name: name.startswith(("variables/", reference.SLOW)),
        "state": lambda name: name.startswith("state/"),
    }
    errors, losses, before = {group: [] for group in of_group}, [], None
    for step in range(STEPS):
        found = load(checkpoint(run, step + 1))
        before = before or _start(reference, initial, [n for n in found if not n.startswith("moving_averages/")])
        expected, loss = reference.step_from(model, before, found, records, recipe, towers.reference, step, STEPS)
        if expected.keys() != before.keys():
            raise ValueError(f"{model}'s arrays differ: {sorted(expected.keys() ^ before.keys())[:4]}")
        losses.append(loss)
        for group, belongs in of_group.items():
            of_names = (_error(found[n], expected[n], before[n]) for n in expected if belongs(n))
            errors[group].append(programs.worst(of_names))
        before = {name: found[name] for name in expected}
        if step + 1 < STEPS:
            checkpoint(run, step + 1).unlink()
    return errors, losses


def _judge(title, errors, expected_losses, losses):
    """Checks all steps. The velocities contain the gradients. In at least one step, their error must be within the
    stricter GRADIENT_LIMIT: in this step, rounding changes no ReLU."""
    least, worst = min(errors["velocities"][1:]), max(errors["velocities"])
    passed = least <= GRADIENT_LIMIT and worst <= OF_A_DECISION
    yield Result(f"{title}, velocities", passed, f"a step to {least:.1e}, all to {worst:.1e}")
    for group in ("variables", "state"):
        worst = max(errors[group])
        yield Result(f"{title}, {group}", worst <= LIMIT, f"to {worst:.1e}")
    worst = max((abs(a - b) / b for a, b in zip(losses, expected_losses)), default=np.inf)
    yield Result(f"{title}, losses", len(losses) == STEPS and worst <= LOSS_LIMIT, f"to {worst:.1e}")


if __name__ == "__main__":
    programs.main(check)
