"""Tests a train directory that changes while a program reads it: after the program has listed the checkpoints, a
running training removes one of these checkpoints."""

from cases import SMALL, judge, results, start

import programs
from processes import TIMEOUT, faulty, wait_for
from programs import checkpoints


def check(context):
    """changing directory"""
    yield from results(context, (_removed_before_opening,))


def _removed_before_opening(context, data):
    """a checkpoint that disappears between listing and opening"""
    run = context.directory("faults")
    process = start(
        context, data, run, "--max-steps", 1000000, "--checkpoint-every", 1, "--keep-checkpoints", 1, "--log-every", 0
    )
    wait_for(process, lambda: checkpoints(run), "a first checkpoint")
    slow = faulty(context, "open", f"{run}/model.ckpt-*", times=1, seconds=1)
    try:
        for program, *options in (
            ("checkpoint_tool", "verify", run),
            ("mnist_eval", "--data", data / "test-*", "--checkpoint", run),
            ("mnist_train", "--data", data / "train-*", "--train-dir", context.directory("faults"), *SMALL,
             "--max-steps", 1, "--init-from", run),
        ):  # fmt: skip
            done = context.finish(context.start(context.command(program, *options), slow), TIMEOUT)
            yield judge(f"{program} reads a checkpoint that is removed meanwhile", done, 0)
    finally:
        programs.kill(process)


if __name__ == "__main__":
    programs.main(check)
