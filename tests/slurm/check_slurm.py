"""Tests the job scripts under a real Slurm with two nodes on this machine (cluster.sh). Needs root and Slurm's
packages.

  jobs/install_deps.sh --slurm
  python3 tests/slurm/check_slurm.py --bin build/bin

A job that is stopped in any way must be requeued, and its result must equal the result of an undisturbed job bit for
bit.
"""

import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "acceptance"))

import numpy as np

import programs
from bad_input import LOST, USAGE
from png import png
from programs import SCALED, ProgramFailed, Result, checkpoint, same_bits

ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY")
TIMEOUT = 600  # seconds for one job, with its time in the queue
STEPS = 6000
OPTIONS = (
    *SCALED, "--device", "cpu", "--batch-size", 20, "--summary-every", 0, "--log-every", 0, "--checkpoint-every", 500,
    "--check-replicas", 1,  # makes the job slow, so that it still runs when Slurm's signal arrives
)  # fmt: skip


class Cluster:
    def __enter__(self):
        done = subprocess.run([HERE / "cluster.sh", "start"], capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"no cluster: {done.stderr.strip()}")
        os.environ["SLURM_CONF"] = re.search(r"SLURM_CONF=(\S+)", done.stdout)[1]
        return self

    def __exit__(self, *_):
        subprocess.run([HERE / "cluster.sh", "stop"], capture_output=True)


def _slurm(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT, timeout=TIMEOUT)
    if done.returncode != 0:
        raise ProgramFailed(f"{' '.join(done.args)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Job:
    """A job. It is submitted from the root folder of the project."""

    def __init__(self, output, script, *arguments, sbatch=()):
        self.output = output
        self.number = _slurm(
            "sbatch", "--parsable", f"--output={output}", *sbatch, ROOT / "jobs" / script, *arguments
        ).strip()

    def state(self):
        return _slurm("squeue", "--noheader", "--states=all", "--format=%T", "--job", self.number).split()[0]

    def wait_for(self, condition, what):
        end = time.monotonic() + TIMEOUT
        while not condition():
            if time.monotonic() > end:
                raise ProgramFailed(f"{what}: did not happen within {TIMEOUT} s; job {self.number} is {self.state()}\n{self.text()}")
            time.sleep(0.1)

    def finish(self):
        """Waits until the job ends; returns its exit code."""
        self.wait_for(lambda: self.state() in ENDS, "its end")
        shown = _slurm("scontrol", "show", "job", self.number)
        return int(re.search(r"ExitCode=(\d+):", shown)[1])

    def text(self):
        return self.output.read_text() if self.output.exists() else ""

    def requeues(self):
        """Returns how often the job was requeued, by the job script or, after preemption, by Slurm."""
        return int(re.search(r"Restarts=(\d+)", _slurm("scontrol", "show", "job", self.number))[1])


def check(context):
    """job scripts under Slurm"""
    data = context.small_set(1000)
    with Cluster():
        whole = context.directory("whole")
        job = _train(context, data, whole)
        code = job.finish()
        ended = code == 0 and checkpoint(whole, STEPS).exists()
        yield Result("slurm: MNIST on 2 nodes of 2 tasks", ended, f"code {code}" if ended else job.text())
        for title, stop, sbatch in (
            ("scancel --signal=USR1", _cancel_with("--signal=USR1"), ()),
            ("scancel --signal=USR1 --batch", _cancel_with("--signal=USR1", "--batch"), ()),
            ("scancel --signal=USR1 --full", _cancel_with("--signal=USR1", "--full"), ()),
            ("a job of higher priority", _preempt, ("--nodes=2", "--exclusive")),
            # Slurm's clock is coarse. So the test requests the signal 50 s before the job's limit of one minute.
            ("its time limit, --signal=USR1@50", _wait_for_limit, ("--time=1", "--signal=USR1@50")),
            ("its time limit, --signal=B:USR1@50", _wait_for_limit, ("--time=1", "--signal=B:USR1@50")),
        ):
            yield _disturbed(context, data, whole, title, stop, sbatch)
        yield _cut_off(context, data, whole)
        yield _array(context, data)
        yield _pictures(context)
        yield _short_limit(context, data)
        yield from _alone(context, data)


def _train(context, data, run, sbatch=(), options=()):
    return Job(
        context.directory("slurm").with_suffix(".out"), "mnist.sbatch", context.binaries / "mnist_train", "--data",
        data / "train-*", "--train-dir", run, "--max-steps", STEPS, *OPTIONS, *options, sbatch=sbatch,
    )  # fmt: skip


def _cancel_with(*options):
    def stop(job, _):
        _slurm("scancel", *options, job.number)

    return stop


def _preempt(job, context):
    output = context.directory("preempting").with_suffix(".out")
    _slurm(
        "sbatch", "--parsable", "--partition=high", "--nodes=2", "--exclusive", "--time=1", f"--output={output}",
        "--wrap", "sleep 3",
    )  # fmt: skip


def _wait_for_limit(job, _):
    pass


def _disturbed(context, data, whole, title, stop, sbatch):
    run = context.directory("disturbed")
    job = _train(context, data, run, sbatch=sbatch)
    job.wait_for(lambda: checkpoint(run, 500).exists() or job.state() in ENDS, "a first checkpoint")
    stop(job, context)
    code = job.finish()
    wrong = "" if code == 0 else f"code {code}: {job.text()}"
    wrong = wrong or ("" if job.requeues() else f"it ended without a requeue: {job.text()}")
    wrong = wrong or same_bits(checkpoint(run, STEPS), checkpoint(whole, STEPS))
    return Result(f"slurm: {title}: requeued, and ends like an undisturbed job", not wrong, wrong or "equal")


def _cut_off(context, data, whole):
    """Cuts the only network link of the second node, which its ranks and Slurm use. Slurm requeues the job when it
    notices that the node is lost. The ranks may notice the loss before Slurm, and end the job. In both cases, the same
    command resumes."""
    run, stall = context.directory("cut"), 2
    job = _train(context, data, run, options=("--stall-timeout", stall))
    job.wait_for(lambda: checkpoint(run, 500).exists() or job.state() in ENDS, "a first checkpoint")
    start = time.monotonic()
    try:
        _slurm("ip", "link", "set", "vst2", "down")
        told = lambda: "without a response" in job.text() or job.requeues() or job.state() in ENDS
        job.wait_for(told, "a report that names the disconnected node")
        passed = time.monotonic() - start
        job.wait_for(lambda: job.state() != "RUNNING", "its end or a requeue")
    finally:
        _slurm("ip", "link", "set", "vst2", "up")
    names = "on n2 in" in job.text() or "on n1 in" in job.text()
    codes = [job.finish()]
    if codes[0] != 0:
        codes.append(_train(context, data, run).finish())
    wrong = "" if names and codes in ([0], [LOST, 0]) else f"codes {codes}: {job.text()}"
    wrong = wrong or same_bits(checkpoint(run, STEPS), checkpoint(whole, STEPS))
    title = "slurm: a disconnected node is named, and the job ends like an undisturbed one"
    return Result(title, not wrong, wrong or f"named after {passed:.0f} s; {job.requeues()} requeues, codes {codes}")


def _array(context, data):
    sweep, runs = context.directory("sweep").with_suffix(".txt"), context.directory("sweep")
    sweep.write_text("--learning-rate 0.01\n--learning-rate 0.02 --seed 2\n")
    output = context.directory("sweep").with_suffix("")
    number = _slurm(
        "sbatch", "--parsable", "--wait", "--array=1-2", f"--output={output}-%a.out", f"--export=ALL,SWEEP={runs}",
        ROOT / "jobs" / "sweep.sbatch", sweep, context.binaries / "mnist_train", "--data", data / "train-*",
        "--max-steps", 10, "--device", "cpu",
    ).strip()  # fmt: skip
    wrong = "" if all(checkpoint(runs / str(task), 10).exists() for task in (1, 2)) else f"job {number} left too little"
    wrong = wrong or ("" if same_bits(checkpoint(runs / "1", 10), checkpoint(runs / "2", 10)) else "both runs are equal")
    return Result("slurm: an array trains once for each line of a file", not wrong, wrong or "2 tasks")


def _picture_folders(context, count):
    """Makes a folder with `count` pictures of two classes."""
    folder = context.directory("pictures")
    for number in range(count):
        path = folder / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(np.full((40, 40, 3), number * 15, np.uint8)))
    return folder


def _pictures(context):
    """Runs jobs/images.sbatch, which copies the records to the local disk of each node. Here, each node has its own
    /dev/shm for this."""
    records, run = (context.directory(name) for name in ("records", "pictures-run"))
    folder = _picture_folders(context, 16)
    context.run("tfrecord_convert", "images", "--input", folder, "--output", records, "--shards", 4)
    output = context.directory("pictures").with_suffix(".out")
    job = Job(
        output, "images.sbatch", "--model", "resnet9", "--image-size", 16, "--batch-size", 2, "--max-steps", 3, "--data",
        records / "train-*", "--train-dir", run, "--device", "cpu", "--sharding", "file",
        sbatch=("--cpus-per-task=1", "--export=ALL,STAGE=/dev/shm/copies"),
    )  # fmt: skip
    code = job.finish()
    wrong = "" if code == 0 and checkpoint(run, 3).exists() else f"code {code}: {job.text()}"
    wrong = wrong or ("" if "staged in /dev/shm/copies: 4 files copied" in job.text() else job.text())
    return Result("slurm: pictures on 2 nodes, each with copies of its part", not wrong, wrong or "4 files copied")


def _short_limit(context, data):
    run = context.directory("short")
    job = _train(context, data, run, sbatch=("--time=1",))
    job.wait_for(lambda: "slurm_train: warning" in job.text() or job.state() in ENDS, "the warning")
    said = "limit of 60 s leaves no time before the signal" in job.text()
    _slurm("scancel", job.number)
    return Result("slurm: warns of a limit that is shorter than the signal's lead", said, job.text().splitlines()[0])


def _alone(context, data):
    """Runs programs that train alone within a step of srun: without PMIx, and twice in one task with PMIx."""
    carillon, pictures = context.binaries / "carillon", _picture_folders(context, 16)
    options = ("--data", data / "train-*", "--max-steps", 3, "--device", "cpu", *SCALED)
    step = lambda mpi, tasks, *command: context.run_command(
        [str(word) for word in ("srun", f"--mpi={mpi}", f"--ntasks={tasks}", *command)], TIMEOUT
    )
    for mpi in ("none", "pmix"):
        runs = [context.directory("alone") for _ in range(3)]
        train = lambda run: " ".join(map(str, (context.binaries / "mnist_train", *options, "--train-dir", run)))
        done = step(mpi, 1, "bash", "-c", f"{train(runs[0])} && {train(runs[1])}")
        wrong = done.complaint(0) or ("" if all(checkpoint(run, 3).exists() for run in runs[:2]) else "a run is missing")
        yield Result(f"slurm: two trainings in one task, --mpi={mpi}", not wrong, wrong or "3 steps each")
        chosen = ("--model", "resnet9", "--image-size", 16, "--max-steps", 3, "--global-batch", 4, "--device", "cpu")
        places = ("--data-dir", context.directory("alone-data"), "--train-dir", runs[2])
        done = step(mpi, 1, carillon, "train", pictures, *chosen, *places, "--ranks", 2)
        wrong = "" if done.code == 0 and checkpoint(runs[2], 3).exists() else done.explain()
        yield Result(f"slurm: carillon train in one task, --mpi={mpi}", not wrong, wrong or "3 steps")
    done = step("none", 2, context.binaries / "mnist_train", *options, "--train-dir", context.directory("alone"))
    lines = [line for line in done.lines if not line.startswith("srun: ")]
    wrong = "" if done.code == USAGE and len(lines) == 1 else done.explain()
    wrong = wrong or ("" if "Slurm started 2 tasks, but MPI sees only this one: use srun --mpi=pmix" in lines[0] else lines[0])
    yield Result("slurm: two tasks without PMIx are refused in one line", not wrong, wrong or lines[0])


if __name__ == "__main__":
    programs.main(check)
