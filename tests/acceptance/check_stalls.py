"""Tests the stall detector: if a rank hangs, the other ranks name it and the run ends in time. Slow or suspended ranks
do not end the run.

The full form starts 100 runs on a loaded machine, and the quick form two. None of them may end with a false alarm. The
quick form does not test a stopped rank 0, because the code that names a stopped rank is the same for all ranks.
"""

import os
import re
import signal
import time

import programs
from bad_input import LOST
from processes import TIMEOUT, catches, faulty, rank_process, wait_for
from programs import SCALED, ProgramFailed, Result, checkpoint, load, programs_of_load

STALL = 2  # seconds
MPIRUN_SECONDS = 15  # time in which mpirun ends the ranks: usually one or two seconds, under load more
SMALL = (*SCALED, "--batch-size", 20, "--summary-every", 0, "--stall-timeout", STALL)
FOR_EVER = ("--max-steps", 100000000)


def check(context):
    """stalls"""
    for case in (_stopped_rank, _evaluation, _suspended_run, _alone, _loaded):
        try:
            yield from case(context, context.small_set(1000))
        except ProgramFailed as error:
            yield Result(f"stalls: {case.__doc__}", False, str(error))


def _start(context, data, run, *options, ranks=2, environment=()):
    command = context.command(
        "mnist_train", "--data", data / "train-*", "--train-dir", run, "--device", context.device, *SMALL, *options,
        ranks=ranks,
    )  # fmt: skip
    return context.start(command, environment)


def _steps(run):
    """Returns how many steps the run has logged."""
    path = run / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def _stopped_rank(context, data):
    """a rank that is stopped"""
    for ranks, stopped in ((2, 1), (4, 2)) if context.quick else ((2, 1), (2, 0), (4, 2)):
        run = context.directory("stalls")
        process = _start(context, data, run, *FOR_EVER, "--checkpoint-every", 50, ranks=ranks)
        wait_for(process, lambda: checkpoint(run, 50).exists(), "a first checkpoint")
        os.kill(rank_process(process, stopped), signal.SIGSTOP)
        start = time.monotonic()
        done = context.finish(process, TIMEOUT)
        passed = time.monotonic() - start
        expected = rf"rank \d+ on \S+: .*rank {stopped} hangs, stopped by a signal: it has been in \w+ of step \d+"
        # mpirun continues the stopped rank before it kills this rank. If the rank was in an update, the rank completes
        # the update and saves the step.
        first, *others = [*done.lines, ""]
        wrong = "" if done.code == LOST and re.search(expected, first) else done.explain()
        wrong = wrong or "".join(line for line in others if line and ": another rank ended the run; saved step" not in line)
        limit = STALL if re.search(r"in (data|compute) of", first) else 4 * STALL
        if not wrong and not STALL - 0.5 < passed < 2 * limit + MPIRUN_SECONDS:
            wrong = f"ended after {passed:.1f} s"
        found = sorted(run.glob("model.ckpt-*.h5"))
        wrong = wrong or ("" if found and all(load(path) for path in found) else "a checkpoint does not load")
        title = f"stalls: if rank {stopped} of {ranks} is stopped, it is named and the run ends in time"
        yield Result(title, not wrong, wrong or f"after {passed:.1f} s: {first}")


def _evaluation(context, data):
    """an evaluation"""
    run = context.directory("stalls")
    context.train(*SCALED, "--max-steps", 2, data=data / "train-*", train_dir=run)
    (records,) = data.glob("train-*")

    def command(*options):
        fixed = ("--checkpoint", run, "--batch-size", 1, "--device", context.device)
        return context.command("mnist_eval", "--data", *[records] * 100, *fixed, *options, ranks=2)

    # On a loaded machine everything is slower, so --stall-timeout is set from a measured time. For the start, the stall
    # detector allows 12 times --stall-timeout, which is the time of a whole run here. It allows 4 times --stall-timeout
    # for each batch of the evaluation, and all batches together take longer.
    began = time.monotonic()
    done = context.run_command(command(), TIMEOUT)
    seconds = time.monotonic() - began
    watched = command("--stall-timeout", seconds / 12)
    if done.code == 0:
        done = context.run_command(watched, TIMEOUT)
    wrong = "" if done.code == 0 and not done.lines else done.explain()
    yield Result("stalls: a long evaluation that makes progress is not ended", not wrong, wrong or "exit code 0")
    for wait in (seconds / 4, seconds / 2, seconds, 2 * seconds):
        process = context.start(watched)
        stopped = rank_process(process, 1)
        wait_for(process, lambda: catches(stopped, signal.SIGUSR2), "the stall detector is set up")
        time.sleep(wait)
        programs.signal_process(stopped, signal.SIGSTOP)
        done = context.finish(process, TIMEOUT)
        if not any("in start of" in line for line in done.lines):
            break
    wrong = done.complaint(
        LOST, ["mnist_eval: rank 0 on ", "rank 1 hangs, stopped by a signal: it has been in evaluation of"]
    )
    yield Result("stalls: a stopped rank of an evaluation is named", not wrong, wrong or done.lines[0])


def _suspended_run(context, data):
    """a run with all processes suspended"""
    run = context.directory("stalls")
    process = _start(context, data, run, *FOR_EVER, "--log-every", 1)
    wait_for(process, lambda: _steps(run) > 10, "a tenth step")
    ranks = [rank_process(process, rank) for rank in range(2)]
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3 * STALL)
    before = _steps(run)
    for pid in ranks:
        os.kill(pid, signal.SIGCONT)
    wait_for(process, lambda: _steps(run) > before + 100, "steps after it continues")
    os.kill(ranks[0], signal.SIGTERM)
    done = context.finish(process, TIMEOUT)
    wrong = "" if done.code == 75 and all(line.startswith("caught TERM in step ") for line in done.lines) else done.explain()
    yield Result("stalls: a run suspended for three times the limit continues", not wrong, wrong or "exit code 75")


def _alone(context, data):
    """a single rank with a disk that hangs"""
    run = context.directory("stalls")
    hang = faulty(context, "fsync", "*model.ckpt*", seconds=600)
    error_file = context.work / "stalls-error"  # launchers pass such a file to their ranks
    error_file.write_text("")
    hang["CARILLON_ERROR_FILE"] = str(error_file)
    start = time.monotonic()
    done = context.finish(_start(context, data, run, "--max-steps", 20, ranks=0, environment=hang), TIMEOUT)
    passed = time.monotonic() - start
    first = done.lines[0] if done.lines else ""
    named = re.match(r"mnist_train: rank 0 on \S+: hangs: it has been in (checkpoint|finish) of step 20 for \d+ s", first)
    has_stack = any("mnist_train(" in line for line in done.lines[1:])
    wrong = "" if done.code == LOST and named and has_stack else done.explain()
    wrong = wrong or ("" if error_file.read_text() == first + "\n" else "the launcher does not know the error line")
    # The limit of these phases is 4 times --stall-timeout. The rank that hangs ends itself only after 1.25 times the
    # limit, so that other ranks can report it first.
    wrong = wrong or ("" if 4 * STALL < passed < 2 * 4 * STALL + MPIRUN_SECONDS else f"ended after {passed:.1f} s")
    yield Result("stalls: a single rank with a disk that hangs ends and prints its stack", not wrong, wrong or first)


def _loaded(context, data):
    """no false alarm under load"""
    runs, wrong = 2 if context.quick else 100, ""
    load_per_core = 3 if context.quick else 8
    with programs_of_load(load_per_core * os.cpu_count()):
        for _ in range(runs):
            run = context.directory("stalls")
            options = ("--max-steps", 60, "--checkpoint-every", 20, "--eval-data", data / "test-*", "--eval-every", 20)
            options += ("--audit", 7)
            done = context.finish(_start(context, data, run, *options), TIMEOUT)
            if done.code != 0 or done.lines:
                wrong = done.explain()
                break
    title = f"stalls: {runs} runs with {load_per_core} other processes per core, no false alarm"
    yield Result(title, not wrong, wrong or "exit code 0")


if __name__ == "__main__":
    programs.main(check)
