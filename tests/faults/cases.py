"""Helpers of the checks of single faults: functions that run short trainings at 2 ranks, and functions that judge how a
program ended.

Every case must end on its own and in time, with the documented exit code and a correct train directory.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "acceptance"))

from processes import TIMEOUT
from programs import SCALED, ProgramFailed, Result

BATCH = ("--batch-size", 20)
SMALL = (*SCALED, *BATCH, "--summary-every", 0)


def results(context, cases):
    """Yields the results of all cases. If a case raises ProgramFailed, yields one failed result for it."""
    for case in cases:
        try:
            yield from case(context, context.small_set(1000))
        except ProgramFailed as error:
            yield Result(f"faults: {case.__doc__}", False, str(error))


def judge(title, done, code, names=(), wrong=""):
    wrong = done.complaint(code, names) or wrong
    return Result(f"faults: {title}", not wrong, wrong or (done.lines[0] if code else "exit code 0"))


def train(context, data, train_dir, *options, common=SMALL):
    return context.train(
        *common, *options, data=data, train_dir=train_dir, ranks=2, expect=None, timeout=TIMEOUT
    )  # fmt: skip


def trained(context, data, steps, *options):
    """Trains, and returns a train directory with checkpoints of step steps/2 and step `steps`."""
    run = context.directory("faults")
    done = train(context, data / "train-*", run, "--max-steps", steps, "--checkpoint-every", steps // 2, *options)
    if done.code != 0:
        raise ProgramFailed(done.explain())
    return run


def initial(context, data):
    run = context.directory("faults")
    context.train("--max-steps", 0, data=data / "train-*", train_dir=run)
    return run


def start(context, data, train_dir, *options, common=SMALL, environment=()):
    """Starts a training with 2 ranks in the background."""
    patterns = data if isinstance(data, list) else [data / "train-*"]
    fixed = ("--data", *patterns, "--train-dir", train_dir, "--device", "cpu", *common)
    return context.start(context.command("mnist_train", *fixed, *options, ranks=2), environment)
