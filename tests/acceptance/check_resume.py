"""A run ends with the same bits as an uninterrupted run in three cases: it is stopped and resumes, it gets a signal and
resumes, or it resumes although its newest checkpoint is damaged."""

import os
import pathlib
import signal
import subprocess
import time

import programs
from programs import SCALED, TIMEOUT, Result, checkpoint, checkpoints, same_bits

RANKS = 2
LOG_EVERY = 10  # the default


def check(context):
    """stopping and resuming"""
    steps = 200 if context.quick else 1000
    if context.device == "cuda":
        steps = 20000  # a GPU is fast, and it logs a step up to 64 steps later
    data = context.small_set(1000 if context.quick else 5000) / "train-*.tfrecord"

    def train(train_dir, last, *options):
        return context.train(
            *SCALED, "--batch-size", 48, "--checkpoint-every", steps // 4, "--max-steps", last, *options,
            data=data, train_dir=train_dir, ranks=RANKS,
        )  # fmt: skip

    def verdict(title, train_dir, also=True, detail=""):
        difference = same_bits(checkpoint(whole, steps), checkpoint(train_dir, steps))
        return Result(f"resume: {title}", not difference and also, difference or f"bit for bit equal {detail}")

    whole = context.directory("whole")
    train(whole, steps)

    run = context.directory("resume")
    train(run, steps // 2)
    train(run, steps)
    whole_log = [line["step"] for line in programs.metrics(run)] == list(range(0, steps, LOG_EVERY))
    detail = "and the log has no gap" if whole_log else "but the log's steps differ from those of one run"
    yield verdict(f"stopped after {steps // 2} of {steps}", run, whole_log, detail)

    for damage in (_flip_byte, _cut):
        run = context.directory("resume")
        train(run, steps // 2)
        damage(checkpoint(run, steps // 2))
        done = train(run, steps)
        warned = any(f"model.ckpt-{steps // 2}.h5" in line for line in done.lines)
        title = f"newest checkpoint damaged ({damage.__doc__})"
        yield verdict(title, run, warned, "after a warning" if warned else "but no warning names the file")

    for number, one_rank in ((signal.SIGUSR1, False), (signal.SIGUSR1, True), (signal.SIGTERM, True)):
        run = context.directory("resume")
        code, last = _signal(context, data, run, steps, number, one_rank)
        train(run, steps)
        title = f"{number.name} to {'one rank' if one_rank else 'mpirun'}"
        yield verdict(title, run, code == 75 and last < steps, f"(exit code {code} at step {last})")

    yield from _modes(context, data, train)


def _modes(context, data, train):
    empty = context.directory("empty")
    done = context.run("mnist_train", "--data", data, "--train-dir", empty, "--resume", "require", expect=None)
    good = done.code == 66 and not checkpoints(empty)
    yield Result("resume: --resume require without a checkpoint", good, done.explain())

    run = context.directory("resume")
    train(run, 10)
    train(run, 20, "--fresh")
    again = context.directory("resume")
    train(again, 20)
    difference = same_bits(checkpoint(run, 20), checkpoint(again, 20))
    yield Result("resume: --fresh starts over", not difference, difference or "equal to the first run")


def _flip_byte(path):
    """one byte flipped"""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def _cut(path):
    """cut short"""
    path.write_bytes(path.read_bytes()[:-1000])


def _signal(context, data, train_dir, steps, number, one_rank):
    """Sends a signal to a run that has logged a step. Returns its exit code, and the step of its newest checkpoint."""
    command = context.command(
        "mnist_train", "--data", data, "--train-dir", train_dir, "--device", context.device, *SCALED, "--batch-size", 48,
        "--checkpoint-every", steps, "--max-steps", steps, "--log-every", 1, ranks=RANKS,
    )  # fmt: skip
    log = train_dir / "metrics.jsonl"
    process = subprocess.Popen(command, env=context.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + TIMEOUT
        while process.poll() is None and not (log.exists() and log.stat().st_size):
            if time.monotonic() > deadline:
                raise programs.ProgramFailed(f"no step logged within {TIMEOUT} s")
            time.sleep(0.002)
        # mpirun forwards USR1 to each rank. If mpirun gets TERM, it ends the ranks.
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]) if one_rank else process.pid, number)
        code = process.wait(timeout=TIMEOUT)
    finally:
        process.kill()
    steps_kept = [int(path.stem.split("-")[1]) for path in checkpoints(train_dir) if path.suffix == ".h5"]
    return code, max(steps_kept, default=0)


if __name__ == "__main__":
    programs.main(check)
