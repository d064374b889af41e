"""A run on a GPU writes the log line of a step some steps later. Each line must contain the values of its own step, and
no line may be missing.

Also runs on the fake GPU, with the programs of tests/support/fake_cuda.
"""

import signal

import events
import programs
from processes import TIMEOUT, wait_for
from programs import Result, checkpoints

SMALL = ("--pixel-scale", 1 / 255, "--learning-rate", 0.1, "--decay-steps", 10, "--batch-size", 20)
MORE_STEPS = 25


def check(context):
    """a GPU's lines"""
    data = context.small_set(1000) / "train-*.tfrecord"
    for every in (1, 7, 10):
        yield from _as_on_the_cpu(context, data, every)
    yield from _stopped(context, data)
    yield from _summaries(context, data)


def _lines(context, data, device, every):
    run = context.directory(device)
    options = ("--max-steps", 60, "--log-every", every, "--summary-every", 0)
    context.train(*SMALL, *options, data=data, train_dir=run, device=device)
    return programs.metrics(run)


def _as_on_the_cpu(context, data, every):
    """In the log of a run on a GPU, steps, losses and learning rates must equal the values of a run on a CPU, and times
    must be plausible."""
    found, expected = (_lines(context, data, device, every) for device in ("cuda", "cpu"))
    steps = [line["step"] for line in found]
    yield _result(f"every {every}: one line per step, in order", steps == list(range(0, 60, every)), f"{steps}")
    for name, tolerance in (("loss", 1e-4), ("cross_entropy", 1e-4), ("learning_rate", 0.0)):
        errors = [abs(a[name] / b[name] - 1) for a, b in zip(found, expected)]
        yield _result(f"every {every}: {name} equals the CPU's", max(errors) <= tolerance, f"{max(errors):.1e} apart")
    times = [line["time"] for line in found]
    yield _result(f"every {every}: steps end one after the other", times == sorted(times), f"{len(times)} lines")
    spans = [
        abs((after["time"] - before["time"]) / (after["step"] - before["step"]) - after["step_seconds"])
        for before, after in zip(found, found[1:])
    ]
    yield _result(f"every {every}: a step's seconds equal the time between lines", max(spans) < 5e-3, f"{max(spans):.1e} s apart")
    idle = [line["step"] for line in found if not line["data_wait_seconds"] > 0]
    yield _result(f"every {every}: each line has the time of its wait for data", not idle, f"not: {idle}" if idle else "all")


def _stopped(context, data):
    """A stopped run must have logged all its steps. If the run resumes, it must log the remaining steps."""
    run = context.directory("stopped")

    def command(*options):
        fixed = ("--data", data, "--train-dir", run, "--device", "cuda", "--log-every", 3, "--summary-every", 0)
        return context.command("mnist_train", *SMALL, *fixed, *options)

    process = context.start(command("--max-steps", 100000))
    log = run / "metrics.jsonl"
    wait_for(process, lambda: log.exists() and log.stat().st_size > 0, "a step is logged")
    process.send_signal(signal.SIGTERM)
    context.finish(process, TIMEOUT)
    (kept,) = checkpoints(run)
    last = int(kept.stem.split("-")[1])
    steps = list(programs.losses(run))
    yield _result("stopped: all steps up to the checkpoint", steps == list(range(0, last, 3)), f"{len(steps)} of {last} steps")
    context.run_command(command("--max-steps", last + MORE_STEPS), TIMEOUT)
    steps = [line["step"] for line in programs.metrics(run)]
    yield _result("resumed: each step once", steps == list(range(0, last + MORE_STEPS, 3)), f"{len(steps)} lines")


def _summaries(context, data):
    """By default, a run on a GPU must write few summaries."""
    for options, expected in (((), [29]), (("--summary-every", 10), [10, 20, 29])):
        run = context.directory("summaries")
        context.train(*SMALL, "--max-steps", 30, *options, data=data, train_dir=run, device="cuda")
        steps = [step for step, _ in events.shown(run)["loss"]]
        yield _result(f"summaries {' '.join(map(str, options)) or 'by default'}", steps == expected, f"of {steps}")


def _result(title, good, detail):
    return Result(f"lines: {title}", good, detail)


if __name__ == "__main__":
    programs.main(check)
