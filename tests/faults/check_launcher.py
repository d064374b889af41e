"""If mpirun or the program that started mpirun is killed, the run saves its last step, and no process remains. Also
tests ranks that fail at the same time or while MPI starts: the other ranks do not wait for mpirun.

The full form repeats each case; --repeats sets the number of repetitions.
"""

import os
import pathlib
import random
import signal
import time

import training

import programs
from processes import has_ended, rank_processes, runs_program, wait_for
from programs import SCALED, ProgramFailed, Result, checkpoint, same_bits

TIMEOUT = 120
STEPS = 1500
LEFT_SECONDS = 30  # seconds within which all processes must end after the launcher was killed
TOGETHER_SECONDS = 5  # seconds within which ranks that fail together must end; more on a loaded machine
MARK = "CARILLON_TEST_RUN"  # environment variable that all processes of a run inherit


def declare(parser):
    parser.add_argument("--repeats", type=int, default=0, help="repeats of each case (default: those of ctest)")
    parser.add_argument("--seed", type=int, default=1)


def check(context):
    """killed launchers"""
    for case in (_mpirun, _launcher, _together, _start):
        try:
            yield case(context)
        except ProgramFailed as error:
            yield Result(f"launcher: {case.__doc__}", False, str(error))


def _repeats(context, quick):
    return context.options.repeats or quick


def _result(title, wrong, detail=""):
    return Result(f"launcher: {title}", not wrong, str(wrong or detail))


def _options(context, run, steps=STEPS):
    data = context.small_set(200) / "train-*"
    fixed = ("--data", data, "--train-dir", run, "--device", "cpu", "--threads", 1, *SCALED, "--batch-size", 4)
    return (*fixed, "--max-steps", steps, "--log-every", 1, "--summary-every", 0, "--checkpoint-every-seconds", 0)


def _logged(run):
    log = run / "metrics.jsonl"
    return log.read_bytes().count(b'"loss"') if log.exists() else 0


def _mpirun(context):
    """a killed mpirun"""
    whole, run = context.directory("whole"), context.directory("killed")
    undisturbed = context.run_command(context.command("mnist_train", *_options(context, whole), ranks=2), TIMEOUT)
    if undisturbed.code:
        raise ProgramFailed(undisturbed.explain())
    command = context.command("mnist_train", *_options(context, run), ranks=2)
    # A killed mpirun leaves files of its shared memory. They are removed with the working directory.
    environment = {"OMPI_MCA_btl_vader_backing_directory": str(context.work)}
    repeats, lost, slowest = _repeats(context, 2), 0, 0.0
    for count in range(1, repeats + 1):
        process = context.start(command, environment)
        step = STEPS * count // (2 * repeats + 1)
        wait_for(process, lambda: _logged(run) >= step and len(rank_processes(process)) == 2, f"step {step}")
        ranks = rank_processes(process).values()
        process.kill()
        killed = time.monotonic()
        while not all(has_ended(pid) for pid in ranks) and time.monotonic() < killed + LEFT_SECONDS:
            time.sleep(0.01)
        slowest = max(slowest, time.monotonic() - killed)
        context.finish(process, TIMEOUT)
        logged, saved = _logged(run), training.saved_steps(run)
        lost += logged - (saved[-1] if saved else 0)
    done = context.run_command(command, TIMEOUT)
    wrong = done.explain() if done.code else f"{lost} logged steps are lost" if lost > 0 else ""
    wrong = wrong or same_bits(checkpoint(whole, STEPS), checkpoint(run, STEPS))
    wrong = wrong or (f"ranks end after {slowest:.1f} s" if slowest >= LEFT_SECONDS else "")
    return _result("if mpirun is killed, no step is lost", wrong, f"{repeats} kills, ranks end within {slowest:.1f} s")


def _marked(mark):
    """Returns the processes that inherited the mark."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes():
                found += [] if has_ended(int(entry.name)) else [int(entry.name)]
        except OSError:
            continue
    return found


def _launcher(context):
    """a killed --ranks"""
    chance = random.Random(context.options.seed)
    repeats, slowest = _repeats(context, 4), 0.0
    for number in range(repeats):
        run = context.directory("orphans")
        mark = f"{os.getpid()}-{number}"
        options = ("--ranks", 2, *_options(context, run, 100000000))
        process = context.start(context.command("mnist_train", *options), {MARK: mark})
        wait = 1.5 * (number + chance.random()) / repeats
        time.sleep(wait)
        process.kill()
        killed = time.monotonic()
        context.finish(process, TIMEOUT)
        while (left := _marked(mark)) and time.monotonic() < killed + LEFT_SECONDS:
            time.sleep(0.1)
        slowest = max(slowest, time.monotonic() - killed)
        if left:
            for pid in left:
                programs.signal_process(pid, signal.SIGKILL)
            return _result("a killed --ranks leaves no process", f"{len(left)} processes after a kill at {wait:.2f} s")
    return _result("a killed --ranks leaves no process", "", f"{repeats} kills, all end within {slowest:.1f} s")


def _together(context):
    """ranks that fail at the same time"""
    repeats, slowest, codes = _repeats(context, 3), 0.0, set()
    for _ in range(repeats):
        command = [str(context.binaries / "carillon"), "launch", "--program", str(_own_failure(context)), "--"]
        command += context.command("x", ranks=4)[:-1] + [str(_own_failure(context)), "each"]
        began = time.monotonic()
        # mpirun pauses for 15 s before it sends signals, as with --ranks and the job scripts.
        done = context.finish(context.start(command, {"OMPI_MCA_odls_base_sigkill_timeout": "15"}), TIMEOUT)
        slowest = max(slowest, time.monotonic() - began)
        codes.add(done.code)
    wrong = "" if codes == {65} else f"exit codes {codes}"
    limit = TOGETHER_SECONDS if os.getloadavg()[0] < 2 * os.cpu_count() else 3 * TOGETHER_SECONDS
    wrong = wrong or (f"a run needs {slowest:.1f} s" if slowest > limit else "")
    return _result("ranks that fail together end at once", wrong, f"{repeats} runs, at most {slowest:.1f} s")


def _own_failure(context):
    places = [folder / "own_failure" for folder in (context.binaries, context.binaries.parent)]
    found = next(filter(pathlib.Path.exists, places), None)
    if found is None:
        raise ProgramFailed(f"{places[0]} does not exist: build the tests first")
    return found


def _start(context):
    """a rank killed while MPI starts"""
    repeats, slowest, found = _repeats(context, 2), 0.0, 0
    for _ in range(repeats):
        run = context.directory("start")
        process = context.start(context.command("mnist_train", "--ranks", 2, *_options(context, run)))
        killed = wait_for(
            process, lambda: next((pid for pid in programs.descendants(process.pid) if _is_rank(pid)), None), "a rank runs"
        )
        programs.signal_process(killed, signal.SIGKILL)
        began = time.monotonic()
        done = context.finish(process, TIMEOUT)
        slowest = max(slowest, time.monotonic() - began)
        found += done.code == 71
    wrong = "" if found == repeats else f"{repeats - found} of {repeats} runs do not end with 71: {done.explain()}"
    wrong = wrong or (f"a run needs {slowest:.1f} s" if slowest > 3 * TOGETHER_SECONDS else "")
    return _result("a rank killed while MPI starts ends the run", wrong, f"{repeats} runs, at most {slowest:.1f} s")


def _is_rank(pid):
    try:
        return runs_program(pid, "_train") and b"OMPI_COMM_WORLD_RANK=" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    programs.main(check, declare=declare)
