"""Tests signals that arrive while a program starts, and at its last steps."""

import signal
import time

from cases import results, start

import programs
from bad_input import STOPPED
from processes import TIMEOUT, catches, rank_process, wait_for
from programs import SCALED, Result, checkpoint, checkpoints, load


def check(context):
    """moments"""
    yield from results(context, (_signals_at_start, _signals_at_the_end))


def _signals_at_start(context, data):
    """signals during start-up"""
    delays = (0.0, 0.05, 0.3, 0.6, 1.0, 2.0) if context.quick else (0.0, *(n / 10 for n in range(1, 21)))
    first = None  # None: the signal comes as soon as the handler exists, while records are read
    many = [data / "train-*"] * 100
    for number, delay in enumerate((first, *delays)):
        kind = (signal.SIGUSR1, signal.SIGTERM, signal.SIGXCPU)[number % 3]
        run = context.directory("faults")
        records = many if delay is first else data
        process = start(context, records, run, "--max-steps", 10000000, "--checkpoint-every", 10000000)
        pid = rank_process(process, number // 2 % 2)
        if delay is first:
            wait_for(process, lambda: catches(pid, kind), "a handler")
            caught, early = True, not run.exists()
        else:
            time.sleep(delay)
            caught, early = catches(pid, kind), True
        programs.signal_process(pid, kind)
        done = context.finish(process, TIMEOUT)
        wrong = "" if early else "the handler is installed after the train directory is made"
        if done.code == 128 + kind:
            wrong = "a signal killed it although it had a handler" if caught else ""
        elif done.code != STOPPED:
            wrong = done.explain()
        elif not [path for path in checkpoints(run) if load(path)]:
            wrong = "no checkpoint"
        when = "once it has a handler" if delay is first else f"after {delay} s"
        yield Result(f"faults: {kind.name} to a rank {when}", not wrong, wrong or f"exit code {done.code}")


def _signals_at_the_end(context, data):
    """signals at the last step"""
    steps = 40
    options = ("--max-steps", steps, "--log-every", 1, "--eval-data", data / "test-*")
    slow = (*SCALED, "--batch-size", 1000, "--summary-every", 0)
    for line, rank in ((steps - 5, 1), (steps - 2, 0), (steps - 1, 1), (steps - 1, 0), (steps, 1)):
        run = context.directory("faults")
        log = run / "metrics.jsonl"
        process = start(context, data, run, *options, common=slow)
        pid = rank_process(process, rank)
        wait_for(process, lambda: log.exists() and log.read_bytes().count(b"\n") >= line, f"{line} logged steps")
        programs.signal_process(pid, signal.SIGUSR1)
        codes = [context.finish(process, TIMEOUT).code]
        while codes[-1] == STOPPED and len(codes) < 5:
            codes.append(context.finish(start(context, data, run, *options, common=slow), TIMEOUT).code)
        evaluations = [entry["step"] for entry in programs.metrics(run) if "eval_precision" in entry]
        found = [step for step, _ in sorted(programs.losses(run).items())]
        passed = codes[-1] == 0 and set(codes) <= {0, STOPPED}
        passed &= evaluations.count(steps) == 1 and found == list(range(steps)) and checkpoint(run, steps).exists()
        detail = f"exit codes {codes}, evaluations of {evaluations}, {len(found)} steps logged"
        yield Result(f"faults: USR1 to rank {rank} after {line} of {steps} logged steps", passed, detail)


if __name__ == "__main__":
    programs.main(check)
