"""Checks metrics.jsonl and the console output of real runs: the times at 1 and 2 ranks, and the logs of a killed
run."""

import signal
import time

import events
import programs
from parity import CONSOLE
from processes import TIMEOUT, rank_process, wait_for
from programs import SCALED, Result, checkpoint, checkpoints

BATCH = 20
SMALL = (*SCALED, "--batch-size", BATCH)
PAUSE = 1.0  # seconds


def check(context):
    """logs"""
    data = context.small_set(1000, 2000)
    yield from _two_ranks(context, data)
    yield from _seconds(context, data)
    yield from _killed(context, data)
    yield from _killed_early(context, data)


def _result(title, wrong, detail):
    return Result(f"logs: {title}", not wrong, wrong or detail)


def _start(context, data, run, *options, ranks=0):
    fixed = ("--data", data / "train-*.tfrecord", "--train-dir", run, "--device", "cpu", *options)
    return context.start(context.command("mnist_train", *fixed, ranks=ranks))


def _logged(run):
    """Returns the number of complete lines in metrics.jsonl."""
    log = run / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def _two_ranks(context, data):
    """Checks the examples per second and the seconds per step at 2 ranks, in metrics.jsonl and on the console."""
    run = context.directory("two")
    done = context.train(
        *SMALL, "--max-steps", 40, "--log-every", 4, "--summary-every", 3,
        data=data / "train-*.tfrecord", train_dir=run, ranks=2,
    )  # fmt: skip
    lines = programs.metrics(run)
    steps = [line["step"] for line in lines]
    yield _result("a line every 4 steps", "" if steps == list(range(0, 40, 4)) else f"{steps}", f"{steps}")
    batches = [line["examples_per_second"] * line["step_seconds"] for line in lines]
    wrong = [batch for batch in batches if abs(batch - 2 * BATCH) > 1e-6]
    yield _result("examples per second at 2 ranks", f"of batches of {wrong}" if wrong else "", f"of {2 * BATCH}")

    parts = [(line["allreduce_seconds"], line["data_wait_seconds"], line["step_seconds"]) for line in lines]
    idle = [part for part in parts if not part[0] > 0 or not part[1] > 0]
    yield _result("2 ranks wait for each other and for records", f"{idle}" if idle else "", "above 0 in each line")
    much = [part for part in parts if part[0] + part[1] > part[2] * (1 + 1e-6)]
    yield _result("the waits are parts of a step", f"{much}" if much else "", "no more than the step")

    own = [line["rank_seconds"] for line in lines]
    wrong = "" if all(len(times) == 2 and min(times) > 0 for times in own[1:]) else f"{own}"
    # Compare the sums over all steps, not single steps: when rank 0 writes a step's line, the other ranks may not have
    # completed the step yet.
    spent, passed = [sum(times) for times in zip(*own)], sum(line["step_seconds"] for line in lines)
    wrong = wrong or (f"{spent} of {passed}" if max(spent) > 1.5 * passed else "")
    yield _result("each rank's work takes a part of the steps' time", wrong, f"{spent} of {passed}")

    printed = CONSOLE.findall(done.output)
    forms = {"step": "{}", "loss": "{:.2f}", "examples_per_second": "{:.1f}", "step_seconds": "{:.3f}"}
    # The console prints seconds per step divided by the number of ranks, which is 2.
    halved = [line | {"step_seconds": line["step_seconds"] / 2} for line in lines]
    expected = [tuple(form.format(line[name]) for name, form in forms.items()) for line in halved]
    yield _result("the console has the same values", "" if printed == expected else f"{printed[:2]}", f"{len(printed)} lines")


def _seconds(context, data):
    """Checks that the step_seconds of a line contain neither a pause before the previous line nor an evaluation."""
    run = context.directory("seconds")
    process = _start(
        context, data, run, *SCALED, "--batch-size", 100, "--max-steps", 300, "--log-every", 1, "--summary-every", 0,
        "--eval-every", 100, "--eval-data", data / "test-*.tfrecord",
    )  # fmt: skip
    wait_for(process, lambda: _logged(run) > 2, "steps are logged")
    process.send_signal(signal.SIGSTOP)
    time.sleep(PAUSE)
    process.send_signal(signal.SIGCONT)
    context.finish(process, TIMEOUT)

    lines = programs.metrics(run)[:-1]  # the last line is an evaluation; no step follows
    gaps = [after["time"] - before["time"] for before, after in zip(lines, lines[1:])]
    yield Result("logs: the run was paused among its first steps", max(gaps[:99]) > 0.9 * PAUSE, f"{max(gaps):.2f} s")
    steps = [number for number in range(1, len(lines)) if "loss" in lines[number]]
    plain = [number for number in steps if "loss" in lines[number - 1]]
    over = {
        lines[n]["step"]: f"{lines[n]['step_seconds']:.4f} of {gaps[n - 1]:.4f} s"
        for n in plain
        if lines[n]["step_seconds"] > gaps[n - 1] + 0.001
    }
    yield _result("a step takes no longer than the time since the previous line", f"{over}" if over else "", f"{len(plain)} steps")
    usual = [n for n in plain if gaps[n - 1] < PAUSE / 2]
    share = sum(lines[n]["step_seconds"] for n in usual) / sum(gaps[n - 1] for n in usual)
    yield Result("logs: steps take most of the time between lines", share > 0.3, f"{share:.2f} of it")
    # In the line after an evaluation, step_seconds must exclude the time of the evaluation, but must not exclude other
    # time.
    behind = [n for n in steps if n not in plain]
    found = {lines[n]["step"]: (lines[n]["step_seconds"], gaps[n - 2], gaps[n - 1]) for n in behind}
    wrong = {step: times for step, times in found.items() if times[0] > times[2] + 0.3 * times[1] + 0.001}
    good = not wrong and list(found) == [100, 200]
    detail = ", ".join(f"step {step}: {own:.4f} s after {before:.4f} s" for step, (own, before, _) in found.items())
    yield Result("logs: no step contains the time of an evaluation", good, detail)


def _killed(context, data):
    """A run that is killed after a checkpoint must resume from this checkpoint, and must log no step twice."""
    run = context.directory("killed")
    options = ("--log-every", 1, "--summary-every", 5, "--checkpoint-every", 20, "--keep-checkpoints", 0)
    process = _start(context, data, run, *SMALL, *options, "--max-steps", 1000000, ranks=2)
    rank = rank_process(process, 0)
    wait_for(process, lambda: checkpoint(run, 20).exists() and _logged(run) > 31, "a checkpoint and steps after it")
    programs.signal_process(rank, signal.SIGKILL)
    code = context.finish(process, TIMEOUT).code
    last = max(programs.losses(run))
    for path in checkpoints(run):
        if path != checkpoint(run, 20):
            path.unlink()  # simulates a kill before this checkpoint, so that the run must repeat steps
    summaries = events.shown(run)["loss"]
    good = code != 0 and last > 20 and summaries[-1][0] > 20
    yield Result("logs: the killed run logged steps after its checkpoint", good, f"of {last}, exit code {code}")

    end = last + 10
    context.train(*SMALL, *options, "--max-steps", end, data=data / "train-*.tfrecord", train_dir=run, ranks=2)
    steps = [line["step"] for line in programs.metrics(run)]
    wrong = "" if steps == list(range(end)) else f"{len(steps)} lines, {len(set(steps))} steps of {end}"
    yield _result("resumed: metrics.jsonl has every step once", wrong, f"{end} steps")
    found = events.files(run)
    starts = [[event.step for event in events.read_file(path) if events.is_start(event)] for path in found]
    yield _result("resumed: a START event at the resumed step", "" if starts == [[], [20]] else f"{starts}", f"{starts}")
    expected = sorted({*range(5, end, 5), end - 1})
    shown = events.shown(run)
    starts = [step for step, _ in shown.pop("options")]
    wrong = [tag for tag, items in shown.items() if [step for step, _ in items] != expected]
    yield _result("resumed: each start logs its options", "" if starts == [0, 20] else f"{starts}", f"{starts}")
    yield _result("resumed: every summary is shown once", ", ".join(wrong), f"{len(expected)} of each tag")


def _killed_early(context, data):
    """A run that is killed before its first checkpoint must begin again. TensorBoard must show no step twice."""
    run = context.directory("early")
    options = ("--log-every", 1, "--summary-every", 5, "--checkpoint-every", 0)
    process = _start(context, data, run, *SMALL, *options, "--max-steps", 1000000, ranks=2)
    rank = rank_process(process, 0)
    wait_for(process, lambda: _logged(run) > 20, "steps are logged")
    programs.signal_process(rank, signal.SIGKILL)
    context.finish(process, TIMEOUT)
    for path in checkpoints(run):
        path.unlink()  # simulates a kill of both ranks at once: rank 1, which was not killed, has saved this checkpoint
    context.train(*SMALL, *options, "--max-steps", 40, data=data / "train-*.tfrecord", train_dir=run, ranks=2)
    shown = [step for step, _ in events.shown(run)["loss"]]
    good = len(events.files(run)) == 2 and shown == [*range(5, 40, 5), 39]
    yield _result("killed before a checkpoint: every summary is shown once", "" if good else f"{shown}", f"{shown}")
    steps = [line["step"] for line in programs.metrics(run)]
    yield _result("and metrics.jsonl has every step once", "" if steps == list(range(40)) else f"{steps}", "40 steps")


if __name__ == "__main__":
    programs.main(check)
