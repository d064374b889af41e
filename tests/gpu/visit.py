"""Shared by the phases of gpu_visit.py: the locations, the time limit and the results of a visit to a machine with a
GPU, and functions that run programs.

The phases that use the GPU run on the first four cores. Phase cpu runs on the remaining cores.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "acceptance"), str(TESTS / "benchmarks")]

import programs  # noqa: E402

DEVICE = os.environ.get("VISIT_DEVICE", "cuda")  # cpu: only to test these scripts
TEST_SECONDS = 60  # seconds; limit of one test
STOPPED = "stopped after {:.0f} s"  # last line in the output of a process that reached its limit
CORES = sorted(os.sched_getaffinity(0))
GPU_CORES, CPU_CORES = CORES[:4], CORES[4:] or CORES
LOCK_SECONDS = 45  # longest time for which a measurement waits for the GPU


class Deadline(Exception):
    pass


class Visit:
    """The locations of programs and results, the time limit, and the table of results.

    ours, theirs: {network: images per second of Carillon and of PyTorch's best form}
    steps: {network: (seconds, graph nodes) of a step}
    data, sets: {mnist or cifar10: pattern of the records, the folder they were made from}
    """

    def __init__(self, options, work):
        self.options, self.work = options, work
        self.started = time.monotonic()
        self.failures = self.passes = self._directories = 0
        self.ours, self.theirs, self.steps = {}, {}, {}
        self.data, self.sets = {}, {}
        self._lock = threading.Lock()
        self.gpu_lock = work / "gpu.lock"  # PyTorch's processes also lock this file
        options.out.mkdir(parents=True, exist_ok=True)

    def left(self):
        return self.started + self.options.seconds - time.monotonic()

    @contextlib.contextmanager
    def gpu(self):
        """Holds the GPU for a measurement. If another process does not release the GPU within LOCK_SECONDS, measures
        nevertheless."""
        with self.gpu_lock.open("a") as file:
            began = time.monotonic()
            while time.monotonic() - began < LOCK_SECONDS:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.02)
            else:
                self.say("      the next measurement shared the GPU")
            yield
        time.sleep(0.1)  # time in which a waiting process can get the lock

    def say(self, line, file="summary.txt"):
        with self._lock, (self.options.out / file).open("a") as summary:
            summary.write(line + "\n")
            if file == "summary.txt":
                print(line, flush=True)

    def result(self, name, passed, detail="", seconds=None):
        self.failures += not passed
        self.passes += passed
        took = "" if seconds is None else f"{seconds:.1f} s"
        now = time.monotonic() - self.started
        self.say(f"{'PASS' if passed else 'FAIL'}  {name:<56} {took:>8} at {now:3.0f} s: {detail}"[:280])
        return passed

    def directory(self, label="run"):
        with self._lock:
            self._directories += 1
            return self.work / f"{label}-{self._directories:03}"

    def run(self, command, log, seconds=TEST_SECONDS, more=(), until=None, cores=()):
        """Runs a command; returns (exit code, output, seconds). At the time limit, kills the process and all processes
        that it started."""
        seconds = min(seconds, (until or (self.started + self.options.seconds)) - time.monotonic())
        if seconds <= 1:
            raise Deadline
        began = time.monotonic()
        words = [str(word) for word in (*on(cores), *command)]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env=os.environ | dict(more),
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            kill(process.pid)
            try:
                output, _ = process.communicate(timeout=5)
            except subprocess.TimeoutExpired:  # a process that cannot be killed keeps the pipe open
                output = ""
            code = 124
            output += f"\n{STOPPED.format(seconds)}\n"
        took = time.monotonic() - began
        self.say(f"\n## exit code {code}, {took:.1f} s: {' '.join(words)}\n{output[-6000:]}", log)
        return code, output, took


def on(cores):
    """Returns the first words of a command that runs another command on these cores only."""
    return ["taskset", "-c", ",".join(map(str, cores))] if cores else []


def kill(pid):
    """Kills the process and all processes that it started: mpirun's ranks have their own process groups."""
    for each in [*programs.descendants(pid), pid]:
        programs.signal_process(each, signal.SIGKILL)


def last_line(output):
    """Returns the most useful line of a failed process's output. This is the first failed assertion; if there is none
    and the process reached the time limit, the limit and the last error; otherwise the last error or, without an error,
    the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if line.endswith(": Failure"):
            return "; ".join([line.split("/")[-1], *lines[index + 1 : index + 5]])[:220]
    telling = [line for line in lines if re.search(r"error|exception|out of|invalid|: rank", line, re.I)]
    if lines and re.fullmatch(r"stopped after \d+ s", lines[-1]):
        return "; ".join([lines[-1], *telling[-1:]])[:220]
    return (telling[-1:] or lines[-1:] or [""])[0][:150]
