"""If a rank of a training is killed, the job script and `carillon train` start the training again, and the training
ends with the same results as an undisturbed training. After a loss that is not finite, they do not start the training
again."""

import pathlib
import signal

import programs
from bad_input import FAILED, LOST
from check_carillon import QUICK, STEPS, command
from processes import TIMEOUT, rank_processes, wait_for
from programs import SCALED, ProgramFailed, Result, checkpoint, same_bits

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "single_node.sh"
LAST = 600  # step


def check(context):
    """restarts"""
    data = context.small_set(1000)
    for case in (_killed, _no_restart, _diverged):
        try:
            yield from case(context, data)
        except ProgramFailed as error:
            yield Result(f"restarts: {case.__doc__}", False, str(error))
    try:
        yield from _carillon(context)
    except ProgramFailed as error:
        yield Result(f"restarts: {_carillon.__doc__}", False, str(error))


def _result(title, wrong, detail=""):
    return Result(f"restarts: {title}", not wrong, str(wrong or detail))


def _start(context, data, run, *options, **variables):
    """Starts jobs/single_node.sh with two ranks and --fresh. If the script restarts the training, it must omit
    --fresh."""
    fixed = ("--data", data / "train-*", "--train-dir", run, "--device", "cpu", "--summary-every", 0, "--log-every", 1)
    command = [SCRIPT, context.binaries / "mnist_train", *fixed, "--batch-size", 20, "--fresh", *options]
    # With an empty CUDA_VISIBLE_DEVICES, the script ignores the machine's GPUs.
    here = {"RANKS": "2", "CUDA_VISIBLE_DEVICES": "", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    return context.start([str(word) for word in command], here | variables)


def _logged(run):
    log = run / "metrics.jsonl"
    return log.read_bytes().count(b'"loss"') if log.exists() else 0


def _kill_rank(process, run, rank, steps):
    """Kills a rank when `steps` steps are logged."""
    wait_for(process, lambda: _logged(run) >= steps and len(rank_processes(process)) == 2, f"{steps} steps are logged")
    programs.signal_process(rank_processes(process)[rank], signal.SIGKILL)


def _killed(context, data):
    """killed ranks of jobs/single_node.sh"""
    whole, run = context.directory("whole"), context.directory("restarted")
    undisturbed = context.finish(_start(context, data, whole, *SCALED, "--max-steps", LAST), TIMEOUT)
    if undisturbed.code:
        raise ProgramFailed(undisturbed.explain())
    process = _start(context, data, run, *SCALED, "--max-steps", LAST)
    for rank, steps in ((1, 50), (0, 250)):
        _kill_rank(process, run, rank, steps)
    done = context.finish(process, TIMEOUT)
    restarts = [line for line in done.errors.splitlines() if "single_node: a rank was lost; restarting from step " in line]
    wrong = "" if done.code == 0 else done.explain()
    wrong = wrong or ("" if len(restarts) == 2 else f"expected two restarts: {done.errors}")
    wrong = wrong or same_bits(checkpoint(whole, LAST), checkpoint(run, LAST))
    yield _result("single_node.sh with two killed ranks ends like an undisturbed run", wrong, restarts[-1:])


def _no_restart(context, data):
    """RESTARTS=0"""
    run = context.directory("none")
    process = _start(context, data, run, *SCALED, "--max-steps", 1000000, RESTARTS="0")
    _kill_rank(process, run, 1, 10)
    done = context.finish(process, TIMEOUT)
    wrong = "" if done.code == LOST and "restarting from" not in done.errors else done.explain()
    yield _result("RESTARTS=0 leads to no restart", wrong, f"exit code {done.code}")


def _diverged(context, data):
    """a loss that is not finite"""
    run = context.directory("diverged")
    done = context.finish(_start(context, data, run, "--learning-rate", 1e25, "--regularization", 0, "--max-steps", 100), TIMEOUT)
    wrong = "" if done.code == FAILED and "restarting from" not in done.errors else done.explain()
    yield _result("a loss that is not finite leads to no restart", wrong)


def _carillon(context):
    """carillon train --restarts"""
    whole, run, data = context.directory("whole"), context.directory("restarted"), context.directory("restarted-data")
    options = (*QUICK, "--ranks", 2, "--micro-batch", 8)
    undisturbed = context.run_command(command(context, whole, data, *options), TIMEOUT)
    if undisturbed.code:
        raise ProgramFailed(undisturbed.explain())
    process = context.start(command(context, run, data, *options, "--restarts", 1))
    _kill_rank(process, run, 1, 10)
    done = context.finish(process, TIMEOUT)
    wrong = done.explain() if done.code else "" if "(restart 1 of 1 without a new checkpoint)" in done.output else done.output
    wrong = wrong or same_bits(checkpoint(whole, STEPS), checkpoint(run, STEPS))
    yield _result("carillon train with a killed rank ends like an undisturbed run", wrong)
    run = context.directory("none")
    process = context.start(command(context, run, data, *options, "--restarts", 0))
    _kill_rank(process, run, 1, 10)
    done = context.finish(process, TIMEOUT)
    wrong = "" if done.code == LOST and "restarting from" not in done.output else done.explain()
    yield _result("carillon train --restarts 0 leads to no restart", wrong, f"exit code {done.code}")


if __name__ == "__main__":
    programs.main(check)
