"""Tests train directories that are not empty: with --fresh, after a finished run, and with a command that has no steps
to train."""

from cases import judge, results, start, train, trained

import programs
from bad_input import IO, NO_INPUT
from processes import TIMEOUT, changes, content, faulty
from programs import checkpoint


def check(context):
    """train directory"""
    yield from results(context, (_fresh, _fresh_without_space, _finished_run, _nothing_to_train))


def _fresh(context, data):
    """--fresh"""
    run = trained(context, data, 100)
    for name in ("model.ckpt-best.h5", "notes.txt", "events.txt"):
        (run / name).write_text("mine")
    before = content(run)
    done = train(context, data / "train-*", run, "--fresh", "--init-from", run / "absent.h5", "--max-steps", 5)
    yield judge("--fresh --init-from a missing file", done, NO_INPUT, ["absent.h5"], changes(run, before))

    done = train(context, data / "train-*", run, "--fresh", "--init-from", checkpoint(run, 50), "--max-steps", 60)
    found = {path.name for path in run.iterdir()}
    kept = {"model.ckpt-best.h5", "notes.txt", "events.txt"}
    wrong = f"directory: {sorted(found)}" if not kept | {"model.ckpt-60.h5"} <= found else ""
    wrong = wrong or ("model.ckpt-100.h5 is still there" if "model.ckpt-100.h5" in found else "")
    yield judge("--fresh --init-from a checkpoint of the same directory", done, 0, wrong=wrong)


def _fresh_without_space(context, data):
    """--fresh without space for a checkpoint"""
    run = trained(context, data, 2)
    checkpoint(run, 1).unlink()
    before = content(run)
    full = faulty(context, "statvfs", run, action="full")
    # A checkpoint of adamw is larger than the earlier checkpoint, so the removal of the earlier checkpoint does not
    # free enough space.
    done = context.finish(start(context, data, run, "--fresh", "--optimizer", "adamw", environment=full), TIMEOUT)
    yield judge("--fresh keeps the checkpoints if there is no space for another", done, IO, ["MiB are free"], changes(run, before))
    done = context.finish(start(context, data, run, "--fresh", "--max-steps", 3, environment=full), TIMEOUT)
    wrong = "" if checkpoint(run, 3).exists() and not checkpoint(run, 2).exists() else "wrong checkpoints"
    yield judge("--fresh counts the space of the checkpoints that it removes", done, 0, wrong=wrong)


def _finished_run(context, data):
    """a finished command again"""
    evaluating = ("--eval-data", data / "test-*", "--eval-every", 50)
    run = trained(context, data, 100, *evaluating)
    before = content(run)
    done = train(context, data / "train-*", run, "--max-steps", 100, "--checkpoint-every", 50, *evaluating)
    wrong = changes(run, before) or ("" if "nothing to do" in done.output else f"its output: {done.output[-200:]}")
    yield judge("a repeated finished command changes nothing and reports this", done, 0, wrong=wrong)


def _nothing_to_train(context, data):
    """--max-steps 0 on a trained directory"""
    run = trained(context, data, 20)
    before = content(run)
    done = train(context, data / "train-*", run, "--max-steps", 0)
    yield judge("--max-steps 0 on a trained directory changes nothing", done, 0, wrong=changes(run, before))


if __name__ == "__main__":
    programs.main(check)
