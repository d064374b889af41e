"""Tests runs that end early, because of INT (once and twice), HUP, XCPU, signals to mpirun, repeated USR1, signals to
job scripts, a time limit, a non-finite loss between logged steps, or a full disk at the end."""

import os
import pathlib
import re
import resource
import signal
import time

import programs
from bad_input import FAILED, IO, STOPPED, USAGE
from processes import TIMEOUT, faulty, rank_process, wait_for
from programs import SCALED, ProgramFailed, Result, checkpoint, checkpoints, load, same_bits

TIMES = 5  # how often USR1 is sent
STACKS = 12  # how many stacks the check requests with USR2; the text of all stacks must fit into a pipe's 64 KiB
JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"
SLOW = 4  # seconds by which the slow disk delays a call; longer than the 1 s between TERM and KILL from mpirun


def check(context):
    """signals and failures"""
    data = context.small_set(1000)
    for case in (_interrupted, _mpirun, _mpirun_kills, _computation, _scripts, _staging, _signalled_again, _second_signal, _time_limit, _diverged, _full_disk):
        try:
            yield from case(context, data)
        except ProgramFailed as error:
            yield Result(f"signals: {case.__doc__}", False, str(error))


def _result(title, wrong, detail):
    return Result(f"signals: {title}", not wrong, wrong or detail)


def _start(context, data, run, *options, ranks=0):
    """Starts a training in the background and waits until it has logged a step. Returns the training, and the process
    id of its first rank."""
    fixed = ("--data", data / "train-*", "--train-dir", run, "--device", context.device, "--summary-every", 0)
    process = context.start(context.command("mnist_train", *fixed, "--log-every", 1, *options, ranks=ranks))
    pid = rank_process(process, 0) if ranks else process.pid
    log = run / "metrics.jsonl"
    wait_for(process, lambda: log.exists() and log.stat().st_size > 0, "a step is logged")
    return process, pid


def _stopped(run, done):
    """Returns what is wrong with the exit code or the checkpoints of a run after a stop signal; empty if nothing is
    wrong."""
    kept = [path.name for path in checkpoints(run)]
    if done.code != STOPPED:
        return done.explain()
    steps = len(programs.losses(run))
    return "" if kept == [f"model.ckpt-{steps}.h5"] else f"{kept} after {steps} steps"


def _staging(context, data):
    """USR1 while data files are copied, on a disk with a slow fsync"""
    shards, disk, run = (context.directory(name) for name in ("shards", "disk", "staging"))
    shards.mkdir()
    for number in range(6):
        (shards / f"train-{number}").write_bytes(next(data.glob("train-*")).read_bytes())
    copies = disk / shards.relative_to("/")
    command = context.command(
        "mnist_train", "--data", shards / "train-*", "--train-dir", run, "--device", context.device, "--max-steps", 3,
        "--stage", disk, ranks=2,
    )  # fmt: skip
    process = context.start(command, faulty(context, "fsync", "*train-*", seconds=SLOW))
    rank = rank_process(process, 1)
    wait_for(process, lambda: any(copies.glob("*.tmp")), "a copy is written")
    programs.signal_process(rank, signal.SIGUSR1)
    done = context.finish(process, TIMEOUT)
    left = sorted(path.name for path in copies.iterdir())
    wrong = done.complaint(STOPPED, ["data files were copied"])
    wrong = wrong or ("" if left == ["train-0", "train-1"] else f"left {left}")
    again = context.run_command(command, TIMEOUT)
    wrong = wrong or ("" if again.code == 0 and "4 files copied" in again.output else again.explain())
    yield _result("USR1 while data files are copied: 75, and the same command copies the others", wrong, f"left {left}")


def _interrupted(context, data):
    """signals to a run without mpirun, and to the ranks of two"""
    for number, ranks in ((signal.SIGINT, 0), (signal.SIGHUP, 0), (signal.SIGXCPU, 0), (signal.SIGINT, 2)):
        run = context.directory("interrupted")
        process, pid = _start(context, data, run, *SCALED, "--batch-size", 100, "--max-steps", 1000000, ranks=ranks)
        programs.signal_process(pid, number)
        done = context.finish(process, TIMEOUT)
        title = f"{number.name} to {'one rank of 2' if ranks else 'a run without mpirun'}"
        wrong = _stopped(run, done)
        said = len(done.lines) == 1 and done.lines[0].startswith(f"caught {number.name[3:]} in step ")
        wrong = wrong or ("" if said else f"stderr: {done.lines}")
        yield _result(title, wrong, f"exit code {done.code}, a checkpoint of the last step")


def _first_line(process):
    """Waits for the first line on stderr, and returns it."""
    text = b""
    while not text.endswith(b"\n") and (more := os.read(process.stderr.fileno(), 1 << 16)):
        text += more
    return text.decode()


def _mpirun(context, data):
    """INT and HUP to mpirun"""
    for number in (signal.SIGINT, signal.SIGHUP):
        run = context.directory("mpirun")
        process, _ = _start(context, data, run, *SCALED, "--batch-size", 100, "--max-steps", 1000000, ranks=2)
        process.send_signal(number)
        line = _first_line(process)
        at_once = process.poll() is None
        done = context.finish(process, TIMEOUT)
        kept, steps = [path.name for path in checkpoints(run)], len(programs.losses(run))
        wrong = "" if kept == [f"model.ckpt-{steps}.h5"] and load(run / kept[0]) else f"{kept} after {steps} steps"
        wrong = wrong or ("" if f"stopped by a signal at step {steps}" in done.output else done.explain())
        said = line.startswith("caught mpirun's stop signal in step ") and "kills the run in 2 s" in line
        wrong = wrong or ("" if at_once and said and line.count("\n") == 1 and not done.lines else f"stderr: {line}{done.lines}")
        yield _result(f"{number.name} to mpirun", wrong, "a checkpoint of the last step; the line comes at once")


def _mpirun_kills(context, data):
    """INT to mpirun on a slow disk"""
    run = context.directory("kills")
    context.train(*SCALED, "--summary-every", 0, "--max-steps", 5, data=data / "train-*", train_dir=run, ranks=2)
    fixed = ("--data", data / "train-*", "--train-dir", run, "--device", context.device, "--summary-every", 0)
    command = context.command("mnist_train", *fixed, *SCALED, "--log-every", 1, "--max-steps", 1000000, ranks=2)
    process = context.start(command, faulty(context, "fsync", "*model.ckpt*", seconds=SLOW))
    wait_for(process, lambda: len(programs.losses(run)) > 7, "steps are logged")
    process.send_signal(signal.SIGINT)
    line = _first_line(process)
    context.finish(process, TIMEOUT)
    wrong = "" if "; the newest complete checkpoint is of step 5. mpirun kills the run in 2 s, " in line else f"stderr: {line}"
    done = context.train(*SCALED, "--max-steps", 6, data=data / "train-*", train_dir=run, ranks=2)
    wrong = wrong or ("" if "resuming from" in done.output and "at step 5\n" in done.output else done.explain())
    yield _result("INT to mpirun on a slow disk", wrong, "the line names the checkpoint that the next run resumes")


def _blocked(pid):
    """Returns the set of signals that each thread of the process blocks. The main thread is first."""
    masks = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name)):
        masks.append(int(re.search(r"SigBlk:\s*(\w+)", (task / "status").read_text())[1], 16))
    return [{number for number in signal.Signals if mask >> (number - 1) & 1} for mask in masks]


def _stacks(errors):
    """Returns the number of stacks on stderr. Each stack begins with the signal handler."""
    frames = [line for line in errors.splitlines() if re.search(r"\[0x[0-9a-f]+\]$", line)]
    return frames.count(frames[0]) if frames else 0


def _computation(context, data):
    """USR2 within steps, and the threads that receive the other signals"""
    if context.device != "cpu":
        return
    # In oneDNN's matrix products for AVX2, the stack pointer may point into the heap, so the frame of a signal handler
    # would damage the heap. Before Carillon avoided this damage, such a run failed 6 times out of 10.
    narrow = ("--isa", "avx2") if " avx2 " in pathlib.Path("/proc/cpuinfo").read_text() else ()
    options = ("--batch-size", 100, "--threads", 2, *narrow)
    run, expected = (context.directory("computation") for _ in range(2))
    process, pid = _start(context, data, run, *SCALED, *options, "--max-steps", 1000000)
    blocked = _blocked(pid)
    for _ in range(STACKS):
        if process.poll() is None:
            programs.signal_process(pid, signal.SIGUSR2)
            time.sleep(0.05)
    programs.signal_process(pid, signal.SIGUSR1)
    done = context.finish(process, TIMEOUT)
    kept = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
    computing = sum(kept <= mask for mask in blocked)
    wrong = _stopped(run, done)
    wrong = wrong or ("" if kept <= blocked[0] and computing >= 2 else f"threads block {blocked}")
    wrong = wrong or ("" if _stacks(done.errors) == STACKS else f"{_stacks(done.errors)} stacks were written")
    if not wrong:
        end = len(programs.losses(run))
        fixed = (*SCALED, *options, "--summary-every", 0, "--log-every", 1)
        context.train(*fixed, "--max-steps", end, data=data / "train-*", train_dir=expected)
        wrong = same_bits(checkpoint(expected, end), checkpoint(run, end))
    yield _result(f"{STACKS} stacks written within steps (USR2)", wrong, "the model is bit for bit equal")


def _script(context, data, command, environment, title, stop, options=()):
    """Runs a job script on a slow disk. `stop` sends a signal. The run must save its state, and the script must end
    with 75."""
    run = context.directory("script")
    fixed = ("--data", data / "train-*", "--train-dir", run, "--device", context.device, "--summary-every", 0)
    command = [*command, context.binaries / "mnist_train", *fixed, *SCALED, "--log-every", 1, "--max-steps", 1000000, *options]
    slow = faulty(context, "fsync", "*model.ckpt*", seconds=SLOW)
    process = context.start(["setsid", *map(str, command)], slow | environment)
    log = run / "metrics.jsonl"
    wait_for(process, lambda: log.exists() and log.stat().st_size > 0, "a step is logged")
    stop(process.pid)
    done = context.finish(process, TIMEOUT)
    left = ", ".join(path.name for path in run.glob("*.tmp"))
    wrong = (f"left {left}" if left else "") or _stopped(run, done)
    yield _result(title, wrong, f"exit code {done.code}, a checkpoint of the last step")


def _scripts(context, data):
    """job scripts and --ranks that get stop signals, on a slow disk"""
    # With an empty CUDA_VISIBLE_DEVICES, the scripts ignore the machine's GPUs.
    here = {"RANKS": "2", "CUDA_VISIBLE_DEVICES": "", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    single = [JOBS / "single_node.sh"]
    title = "single_node.sh on a slow disk:"
    yield from _script(context, data, single, here, f"{title} TERM", lambda pid: os.kill(pid, signal.SIGTERM))
    yield from _script(context, data, single, here, f"{title} Ctrl-C", lambda pid: os.killpg(pid, signal.SIGINT))

    title = "--ranks 2 on a slow disk:"
    ranks = ("--ranks", 2)
    yield from _script(context, data, [], {}, f"{title} TERM", lambda pid: os.kill(pid, signal.SIGTERM), ranks)
    yield from _script(context, data, [], {}, f"{title} Ctrl-C", lambda pid: os.killpg(pid, signal.SIGINT), ranks)

    stubs = context.directory("slurm")  # stubs: srun runs one task; squeue prevents a requeue
    stubs.mkdir()
    for name, body in (("srun", 'while [[ $1 == -* ]]; do shift; done; exec "$@"'), ("squeue", "echo COMPLETING")):
        (stubs / name).write_text(f"#!/bin/bash\n{body}\n")
        (stubs / name).chmod(0o755)
    path = {"PATH": f"{stubs}:{os.environ['PATH']}", "SLURM_JOB_ID": "1"}
    slurm = [JOBS / "slurm_train.sh", "mnist_train"]
    path["PATH"] = f"{context.binaries}:{path['PATH']}"
    title = "slurm_train.sh, with a stub of srun: TERM"
    yield from _script(context, data, slurm, path, title, lambda pid: os.kill(pid, signal.SIGTERM))


def _pending(pid, number):
    """Returns whether the signal is pending for the process."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return any(int(mask, 16) >> (number - 1) & 1 for mask in re.findall(r"(?:Shd|Sig)Pnd:\s*(\w+)", status))


def _signalled_again(context, data):
    """USR1 several times within a step"""
    run = context.directory("again")
    # With this batch size, a step takes long enough for several signals.
    process, pid = _start(context, data, run, *SCALED, "--batch-size", 10000, "--max-steps", 1000)
    taken = 0
    for _ in range(TIMES):
        if process.poll() is not None:
            break
        programs.signal_process(pid, signal.SIGUSR1)
        wait_for(process, lambda: not _pending(pid, signal.SIGUSR1), "the signal is taken")
        time.sleep(0.02)
        taken += 1
    done = context.finish(process, TIMEOUT)
    wrong = "" if taken == TIMES else f"it ended after {taken} signals, {done.explain()}"
    wrong = wrong or _stopped(run, done)
    yield _result(f"USR1 {TIMES} times", wrong, f"exit code {done.code}, a checkpoint of the last step")


def _second_signal(context, data):
    """a second INT while the run saves on a slow disk after the first INT"""
    run = context.directory("second")
    fixed = ("--data", data / "train-*", "--train-dir", run, "--device", context.device, "--summary-every", 0)
    options = (*SCALED, "--log-every", 1, "--checkpoint-every", 0)
    command = context.command("mnist_train", *fixed, *options, "--max-steps", 1000000)
    process = context.start(command, faulty(context, "fsync", "*model.ckpt*", seconds=30))
    log = run / "metrics.jsonl"
    wait_for(process, lambda: log.exists() and log.stat().st_size > 0, "a step is logged")
    process.send_signal(signal.SIGINT)
    wait_for(process, lambda: list(run.glob("*.tmp")), "the checkpoint is being written")
    time.sleep(1.2)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    done = context.finish(process, TIMEOUT)
    wrong = "" if done.code == -signal.SIGINT else done.explain()
    wrong = wrong or ("" if time.monotonic() - began < 10 and not list(run.glob("*.h5")) else "it waited for the disk")
    yield _result("a second INT ends a run at once", wrong, f"exit code {done.code}")
    end = len(programs.losses(run)) + 10
    expected = context.directory("second")
    for where in (run, expected):
        context.train(*options, "--summary-every", 0, "--max-steps", end, data=data / "train-*", train_dir=where)
    left = ", ".join(path.name for path in run.glob("*.tmp"))
    wrong = (f"left {left}" if left else "") or same_bits(checkpoint(expected, end), checkpoint(run, end))
    wrong = wrong or ("" if [line["step"] for line in programs.metrics(run)] == list(range(end)) else "steps twice")
    yield _result("the run after it resumes", wrong, "it ends bit for bit like one run")


def _time_limit(context, data):
    """--time-limit"""
    options = (*SCALED, "--batch-size", 20, "--summary-every", 0, "--log-every", 1, "--checkpoint-every", 0)
    job_end = {"SLURM_JOB_END_TIME": str(int(time.time()) + 6)}
    for limit, margin, environment in ((4, 2, {}), ("slurm", 2, job_end)):
        run = context.directory("limit")
        fixed = ("--data", data / "train-*", "--train-dir", run, "--device", context.device, *options)
        limits = ("--max-steps", 1000000, "--time-limit", limit, "--time-margin", margin)
        began = time.monotonic()
        command = context.command("mnist_train", *fixed, *limits, ranks=2)
        done = context.finish(context.start(command, environment), TIMEOUT)
        seconds = time.monotonic() - began
        wrong = _stopped(run, done) or ("" if "stopped by --time-limit" in done.output else "it does not say why")
        yield _result(f"--time-limit {limit} at 2 ranks", wrong, f"exit code 75 after {seconds:.1f} s, one checkpoint")
    fixed = ("--data", data / "train-*", "--train-dir", context.directory("margin"), "--device", context.device, *options)
    command = context.command("mnist_train", *fixed, "--max-steps", 50, "--time-limit", "slurm", "--time-margin", 60)
    done = context.finish(context.start(command, {"SLURM_JOB_END_TIME": str(int(time.time()) + 30)}), TIMEOUT)
    wrong = done.complaint(STOPPED, ["less than --time-margin 60 s is left, so the run stops after its first step"])
    yield _result("less time than the margin", wrong, "exit code 75 after a warning")
    done = context.train("--time-limit", "slurm", data=data / "train-*", train_dir=run, expect=None)
    wrong = done.complaint(USAGE, ["--time-limit", "SLURM_JOB_END_TIME"])
    yield _result("--time-limit slurm without a job", wrong, done.lines[0] if done.lines else "")


def _diverged(context, data):
    """a non-finite loss at a step that is not logged"""
    lines = []
    for every in (1, 50, 0):
        run = context.directory("diverged")
        done = context.train(
            "--learning-rate", 1e25, "--regularization", 0, "--batch-size", 20, "--max-steps", 40, "--log-every", every,
            "--summary-every", 0, data=data / "train-*", train_dir=run, expect=None,
        )  # fmt: skip
        left = ", ".join(path.name for path in checkpoints(run))
        wrong = done.complaint(FAILED, ["diverged", "step"]) or (f"left {left}" if left else "")
        yield _result(f"a diverging run, --log-every {every}", wrong, done.lines[0] if done.lines else "")
        lines += [re.findall(r"step (\d+)", line) for line in done.lines]
    at = [int(step) for line in lines for step in line]
    good = len(at) == 3 and len(set(at)) == 1 and 0 < at[0] < 40
    yield Result("signals: a diverging run ends at the same step", good, f"at steps {at}, for every --log-every")


def _full_disk(context, data):
    """a full disk at the last checkpoint"""
    for ranks in (0, 2):
        run = context.directory("full")
        process, pid = _start(
            context, data, run, *SCALED, "--batch-size", 50, "--max-steps", 600, "--checkpoint-every", 0, "--checkpoint-failures", 0,
            ranks=ranks,
        )  # fmt: skip
        # From now on, rank 0 cannot write files larger than 1 MiB. This is enough for the log, but not for a
        # checkpoint.
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = context.finish(process, TIMEOUT)
        left = [path.name for path in run.iterdir() if path.name.startswith("model.ckpt")]
        wrong = done.complaint(IO, ["model.ckpt-600.h5"]) or (f"left {left}" if left else "")
        wrong = wrong or ("" if len(programs.losses(run)) == 600 else "not all steps are logged")
        wrong = wrong or ("it reports that it wrote the checkpoint" if "wrote" in done.output else "")
        title = f"a full disk at the last checkpoint, {ranks or 1} ranks"
        yield _result(title, wrong, done.lines[0] if done.lines else "")
    run = context.directory("whole")
    context.train(*SCALED, "--max-steps", 2, "--checkpoint-every", 0, data=data / "train-*", train_dir=run)
    good = bool(load(checkpoint(run, 2)))
    yield Result("signals: --checkpoint-every 0 writes the last checkpoint", good, "and it loads")


if __name__ == "__main__":
    programs.main(check)
