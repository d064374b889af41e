"""Trainings with micro-batches have results with equal bits at 1, 2, 4 and 8 ranks: equal checkpoints and equal losses,
also if a run resumes.

All runs are shuffled. They use batch norm, momentum and distortions if the network has them; some runs use mixup. One
run with mixup is killed and resumes with other numbers of ranks.
"""

import json

import h5py
import programs
from bad_input import USAGE
from processes import wait_for
from programs import Result, checkpoint, checkpoints, metrics, same_bits

BATCHES = ("--global-batch", 96, "--micro-batch", 12, "--shuffle", "true")
THREE = ("--global-batch", 36, *BATCHES[2:])
MIXED = ("--mixup", 0.2, "--cutmix", 1)
BALANCED = ("--sampling", "balanced", "--class-weights", "balanced", "--focal-gamma", 2, "--label-smoothing", 0.1)
AIRBENCH = ("--model", "airbench94", "--lookahead-every", 2)
# For each training: (program, options, steps of the quick form, steps of the full form).
TRAININGS = {
    "mnist": ("mnist_train", (*programs.SCALED,), 20, 100),
    "mnist, balanced": ("mnist_train", (*programs.SCALED, *BALANCED, *MIXED), 20, 100),
    "mnist, balanced, not cached": ("mnist_train", (*programs.SCALED, *BALANCED, "--cache", "none"), 0, 40),
    "mnist, clipped": ("mnist_train", (*programs.SCALED, "--optimizer", "momentum", "--clip-norm", 0.3), 10, 60),
    "lenet": ("mnist_train", (*programs.SCALED, "--model", "lenet", "--optimizer", "adamw"), 0, 20),
    "cifar10": ("cifar10_train", (), 0, 12),
    "cifar10 in bf16": ("cifar10_train", ("--precision", "bf16"), 2, 4),
    "resnet9": ("cifar10_train", ("--model", "resnet9", "--optimizer", "nesterov", "--momentum", 0.9, *MIXED), 2, 6),
    "airbench94": ("cifar10_train", (*AIRBENCH, "--optimizer", "nesterov", "--momentum", 0.85), 0, 6),
    "airbench94, muon": ("cifar10_train", (*AIRBENCH, "--optimizer", "muon", "--clip-norm", 0.1), 0, 4),
    "resnet9, frozen": ("cifar10_train", ("--model", "resnet9", "--freeze-batch-norm"), 0, 4),
}


def check(context):
    """micro-batches"""
    for model, (program, options, quick_steps, steps) in TRAININGS.items():
        steps = quick_steps if context.quick else steps
        if context.quick and context.device == "cuda" and program != "mnist_train":
            continue  # the fake GPU would need minutes for the convolutions
        if steps:
            yield from _one_network(context, model, program, options, steps)
    yield from _resumed(context, 40)
    yield _diverged(context)
    yield from _refused(context)


def _train(context, program, options, ranks, steps, *more, directory=None):
    is_mnist = program == "mnist_train"
    data = context.small_set(1000) if is_mnist else context.small_cifar10_set(100)
    directory = directory or context.directory("micro")
    context.train(
        *options, *BATCHES, "--max-steps", steps, "--log-every", 1, "--summary-every", 0, *more,
        program=program, data=data / "train-*", train_dir=directory, ranks=ranks, timeout=900,
    )  # fmt: skip
    return directory


def _losses(directory):
    """Returns [step, loss, cross-entropy, learning rate, gradient norm] of each logged step in metrics.jsonl."""
    names = ("step", "loss", "cross_entropy", "learning_rate", "gradient_norm")
    return [[line.get(name) for name in names] for line in metrics(directory) if "loss" in line]


def _described(path):
    """Returns the attributes of a checkpoint, and the recorded options of its run without --train-dir."""
    with h5py.File(path) as file:
        attributes = {name: str(value) for name, value in file.attrs.items()}
    options = json.loads(attributes.pop("options"))
    options.pop("train_dir")
    return attributes, options


def _differs(first, second, step):
    """Returns the first difference between two runs; empty if there is none."""
    a, b = checkpoint(first, step), checkpoint(second, step)
    differs = same_bits(a, b) or ("" if _described(a) == _described(b) else "attributes differ")
    return differs or ("" if _losses(first) == _losses(second) else "metrics.jsonl has other losses")


def _one_network(context, model, program, options, steps):
    every = (1, 2) if context.quick and not model.startswith("mnist") else (1, 2, 4, 8)
    first = _train(context, program, options, every[0], steps)
    for ranks in every[1:]:
        differs = _differs(first, _train(context, program, options, ranks, steps), steps)
        yield Result(f"micro-batches: {model}, {ranks} ranks as 1, {steps} steps", not differs, differs or "equal")


def _resumed(context, steps):
    """Kills a run at 4 ranks, resumes and stops it at 1 rank, then resumes it at 8 ranks."""
    program, options = "mnist_train", (*programs.SCALED, *MIXED)
    whole = _train(context, program, options, 2, steps)
    run, data = context.directory("micro"), context.small_set(1000)
    process = context.start(
        context.command(
            program, "--data", data / "train-*", "--train-dir", run, "--device", context.device, *options, *BATCHES,
            "--max-steps", 1000000, "--checkpoint-every", 10, "--keep-checkpoints", 0, "--summary-every", 0, ranks=4,
        )
    )  # fmt: skip
    wait_for(process, lambda: checkpoint(run, 10).exists(), "a first checkpoint")
    programs.kill(process)
    for path in checkpoints(run):
        if path != checkpoint(run, 10):
            path.unlink()
    for ranks, until in ((1, 20), (8, steps)):
        _train(context, program, options, ranks, until, directory=run)
    differs = same_bits(checkpoint(whole, steps), checkpoint(run, steps))
    title = "micro-batches: killed at 4 ranks, resumed at 1, then at 8"
    yield Result(title, not differs, differs or "equal arrays")


def _diverged(context):
    """With and without micro-batches, a run must report the same cause of a non-finite loss."""
    told = []
    for batches in (BATCHES, ("--batch-size", 48)):
        done = context.train(
            *batches, "--learning-rate", "1e25", "--regularization", 0, "--max-steps", 50, "--on-nan", "report",
            data=context.small_set(1000) / "train-*", train_dir=context.directory("micro"), ranks=2, expect=None,
        )  # fmt: skip
        told.append(done.lines)
    wrong = "" if len(told[0]) == 1 and told[0] == told[1] and "a replay of the step" in told[0][0] else f"{told}"
    return Result("micro-batches: a diverged step has the same cause as without", not wrong, wrong or told[0][0])


def _refused(context):
    """If options are invalid, all ranks must end without delay, and the run must print only one line."""
    for title, options, said in (
        ("batch norm in a network without any", ("--sync-batch-norm",), "--sync-batch-norm"),
        ("a network without batch norms to freeze", ("--freeze-batch-norm",), "--freeze-batch-norm"),
        ("no variable to exclude", ("--decay-exclude", "fc/*"), "--decay-exclude: 'fc/*' matches no"),
        ("muon without a hidden matrix", ("--optimizer", "muon"), "found no hidden matrix"),
        ("micro-batches that ranks cannot share", THREE, "3 micro-batches"),
    ):
        run = context.directory("micro")
        done = context.train(
            *options, data=context.small_set(1000) / "train-*", train_dir=run, program="mnist_train", ranks=2, expect=None,
        )  # fmt: skip
        wrong = done.complaint(USAGE, [said]) or ("a train directory is left" if run.exists() else "")
        yield Result(f"micro-batches: rejected: {title}", not wrong, wrong or done.lines[0])


if __name__ == "__main__":
    programs.main(check)
