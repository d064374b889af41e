"""A visit to a machine with a GPU: locations, time limit, results, and how a program is run. Shared by gpu_visit.py's phases."""

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
TEST_SECONDS = 60  # limit of one test
STOPPED = "stopped after {:.0f} s"  # the last line of a process that reached its limit


class Deadline(Exception):
    pass


class Visit:
    """The locations of programs and results, the time limit, and the table of results."""

    def __init__(self, options, work):
        self.options, self.work = options, work
        self.started = time.monotonic()
        self.failures = self.passes = self._directories = 0
        self._lock = threading.Lock()
        options.out.mkdir(parents=True, exist_ok=True)

    def left(self):
        return self.started + self.options.seconds - time.monotonic()

    def say(self, line, file="summary.txt"):
        with self._lock, (self.options.out / file).open("a") as summary:
            summary.write(line + "\n")
            if file == "summary.txt":
                print(line, flush=True)

    def result(self, name, passed, detail="", seconds=None):
        self.failures += not passed
        self.passes += passed
        took = "" if seconds is None else f"{seconds:6.1f} s"
        self.say(f"{'PASS' if passed else 'FAIL'}  {name:<56} {took:>9} {detail}"[:260])
        return passed

    def directory(self, label="run"):
        with self._lock:
            self._directories += 1
            return self.work / f"{label}-{self._directories:03}"

    def run(self, command, log, seconds=TEST_SECONDS, more=(), until=None):
        """(exit code, output, seconds). Kills the process and all that it started at its limit."""
        seconds = min(seconds, (until or (self.started + self.options.seconds)) - time.monotonic())
        if seconds <= 1:
            raise Deadline
        began = time.monotonic()
        words = [str(word) for word in command]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env=os.environ | dict(more),
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            for pid in [*programs.descendants(process.pid), process.pid]:  # mpirun's ranks have their own groups
                programs.signal_process(pid, signal.SIGKILL)
            try:
                output, _ = process.communicate(timeout=5)
            except subprocess.TimeoutExpired:  # a process that cannot be killed holds the pipe
                output = ""
            code = 124
            output += f"\n{STOPPED.format(seconds)}\n"
        took = time.monotonic() - began
        self.say(f"\n## exit code {code}, {took:.1f} s: {' '.join(words)}\n{output[-6000:]}", log)
        return code, output, took


def last_line(output):
    """The most useful line of a failure: the first failed assertion, the time limit and an error, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if line.endswith(": Failure"):
            return "; ".join([line.split("/")[-1], *lines[index + 1 : index + 5]])[:220]
    telling = [line for line in lines if re.search(r"error|exception|out of|invalid|: rank", line, re.I)]
    if lines and re.fullmatch(r"stopped after \d+ s", lines[-1]):
        return "; ".join([lines[-1], *telling[-1:]])[:220]
    return (telling[-1:] or lines[-1:] or [""])[0][:150]
