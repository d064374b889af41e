"""Runs Carillon's programs and checks their results; shared by all checks."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

import cifar
from hdf5 import load
from idx import read_idx

TIMEOUT = 600  # seconds; even on a loaded machine, only a program that hangs takes longer
VARIABLES = ("layer1/weights", "layer1/biases", "layer2/weights", "layer2/biases")
SCALED = ("--pixel-scale", "0.00392156862745098", "--learning-rate", "0.1", "--decay-steps", "600")

# Open MPI prints these lines on stderr if a rank aborts, or ends with an exit code other than 0.
_BANNER = re.compile(
    r"^-{20,}$|^[\s\0]*$|^MPI_ABORT was invoked|^with errorcode|^NOTE: invoking MPI_ABORT|^You may or may not see output"
    r"|^exactly when Open MPI kills|^mpirun (detected|has exited|noticed)|^Primary job\s+terminated|^a non-zero exit code"
    r"|^the job to be terminated|^\s+Process name:|^\s+Exit code:|^\[[^]]+:\d+\] (\d+ more process|Set MCA parameter)"
    r"|^mpirun: Forwarding signal"
    r"|^\[[^]]+:\d+\] plm:rsh: Warning: setpgid"  # harmless: the child process has already called setpgid
    r"|^\s*(Proc|Errorcode|Command|Hostname|Node):|aborting the job|^This may have caused other processes"
    r"|ORTE_ERROR_LOG: .*show_help"  # printed if two ranks abort at the same time
    # Lines of prterun, the launcher of Open MPI 5. prterun also warns if ranks have no TCP connection, but the ranks
    # need no such connection.
    r'|^prterun (detected|has exited|noticed)|^"abort"\. This may have caused|^terminated by signals sent by prterun'
    r"|^thus causing the job to be terminated|^\[[^]]+:\d+\] PMIX ERROR: PMIX_ERR_UNREACH"  # the rank has already ended
    r"|^\[[^]]+\]\[\[\d+,\d+\],\d+\].*btl_tcp_proc|^Unable to find reachable pairing between"
)


# Progress lines of a long run, and two warnings: that ranks share a GPU, and that another program slows a rank down.
_ASIDE = re.compile(
    r"^(step|batch) \d+/\d+, .* left$|^warning: ranks [\d, and]+ share GPU[ -]|^warning: rank \d+ on \S+ delays the other ranks"
)

# These lines follow the reason of a crash.
_STACK = re.compile(r"\[0x[0-9a-f]+\]$|^\[[^]]+:\d+\] (\*\*\* |Signal code:)")


@dataclass
class Result:
    name: str
    passed: bool
    detail: str


def own_lines(text):
    """Returns the lines of the program itself: the lines that match neither _BANNER nor _ASIDE."""
    return [line for line in text.splitlines() if not (_BANNER.search(line) or _ASIDE.search(line))]


@dataclass
class Finished:
    """The exit code and the output of a program that has ended. `lines`: the program's own lines on stderr
    (own_lines)."""

    command: list
    code: int
    output: str
    errors: str

    @property
    def lines(self):
        return own_lines(self.errors)

    def complaint(self, code, names=()):
        """Returns what is wrong with the program's end; empty if nothing is wrong. The exit code must be `code`. Unless
        `code` is 0, the program must have printed one line that contains all `names`."""
        lines = self.lines
        if self.code != code:
            return f"expected exit code {code}; {self.explain()}"
        if len(lines) != (code != 0):
            return f"{len(lines)} lines on stderr: {' | '.join(lines[:4])}"
        missing = [name for name in names if name not in lines[0]]
        return f"the line does not name {missing}: {lines[0]}" if missing else ""

    def explain(self):
        said = [line for line in self.lines if not _STACK.search(line)]
        return f"exit code {self.code}: {' | '.join(said[-3:]) or self.output[-200:]}"


class ProgramFailed(Exception):
    pass


def one_rank_each(*commands):
    """Returns a command that starts a run with one rank for each of the commands. A shell selects the command by the
    number of its rank: mpirun's own syntax (`:` between commands) makes Open MPI 5.0.7 crash."""
    choices = " ".join(f"{rank}) exec {shlex.join(map(str, command))} ;;" for rank, command in enumerate(commands))
    launcher = ["mpirun", "-np", str(len(commands)), "--oversubscribe", "--bind-to", "none"]
    return [*launcher, "sh", "-c", f"case $OMPI_COMM_WORLD_RANK in {choices} esac"]


@contextlib.contextmanager
def programs_of_load(count):
    """During the `with` block, runs `count` processes that only compute."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


class Context:
    """The paths of the programs, the data and the working directory, and the options of the checks."""

    def __init__(self, binaries, images, cifar10, work, quick, device="cpu", options=None):
        self.binaries, self.images, self.cifar10, self.work, self.quick = binaries, images, cifar10, work, quick
        self.device, self.options = device, options
        self._count = 0

    def directory(self, label="run"):
        """Returns a path in the working directory at which no file or directory exists yet."""
        self._count += 1
        return self.work / f"{label}-{self._count:03}"

    def command(self, program, *options, ranks=0):
        """Returns the command line of a program. Begins with mpirun unless ranks is 0."""
        launcher = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"] if ranks else []
        return [*launcher, str(self.binaries / program), *map(str, options)]

    def environment(self):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CARILLON_")}
        if os.geteuid() == 0:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return environment

    def start(self, command, environment=()):
        """Starts the command with additional environment variables. Call `finish` to wait for its end."""
        variables = self.environment() | dict(environment)
        return subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )

    def finish(self, process, timeout=TIMEOUT):
        """Waits for a process of `start` to end. If it hangs, kills it with all its ranks."""
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as hang:
            kill(process)
            raise ProgramFailed(f"still running after {timeout} s: {' '.join(process.args)}") from hang
        return Finished(process.args, process.returncode, output, errors)

    def run_command(self, command, timeout=TIMEOUT):
        return self.finish(self.start(command), timeout)

    def run(self, program, *options, ranks=0, expect=0, timeout=TIMEOUT):
        """Runs a program. Raises ProgramFailed if the exit code is not `expect` (None: any exit code is accepted)."""
        done = self.run_command(self.command(program, *options, ranks=ranks), timeout)
        if expect is not None and done.code != expect:
            raise ProgramFailed(f"{' '.join(done.command)}: {done.explain()}")
        return done

    def train(self, *options, data, train_dir, program="mnist_train", ranks=0, device=None, **keywords):
        """Trains. data: a pattern, a path, or a list of patterns and paths."""
        patterns = data if isinstance(data, list) else [data]
        fixed = ["--data", *patterns, "--train-dir", train_dir, "--device", device or self.device]
        return self.run(program, *fixed, *options, ranks=ranks, **keywords)

    def small_set(self, train_count, test_count=100):
        """Returns a directory with TFRecords of the first images of MNIST, written by tfrecord_convert."""
        target = self.work / f"set-{train_count}-{test_count}"
        if not target.exists():
            source = self.work / f"idx-{train_count}-{test_count}"
            source.mkdir()
            for split, count in (("train", train_count), ("t10k", test_count)):
                images, labels = read_idx(self.images, split)
                cut_images = struct.pack(">4I", 0x803, count, 28, 28) + images[:count].tobytes()
                (source / f"{split}-images-idx3-ubyte").write_bytes(cut_images)
                cut_labels = struct.pack(">2I", 0x801, count) + labels[:count].tobytes()
                (source / f"{split}-labels-idx1-ubyte").write_bytes(cut_labels)
            self.run("tfrecord_convert", "mnist", "--input", source, "--output", target)
        return target

    def small_cifar10_set(self, count):
        """Returns a directory with TFRecords, written by tfrecord_convert, of the first `count` images (or all) in each
        source file."""
        target = self.work / f"cifar10-{count}"
        if not target.exists():
            source = self.work / f"cifar10-source-{count}"
            source.mkdir()
            for name, records in cifar.read_batches(self.cifar10).items():
                (source / name).write_bytes(records[:count].tobytes())
            self.run("tfrecord_convert", "cifar10", "--input", source, "--output", target)
        return target


def descendants(pid):
    """Returns the descendants of the process `pid`, its children first."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [*map(int, children), *(below for child in children for below in descendants(int(child)))]


def signal_process(pid, number):
    """Sends a signal to a process that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill(process):
    """Ends a process that Context.start has started, and its descendants."""
    for pid in [*descendants(process.pid), process.pid]:
        signal_process(pid, signal.SIGKILL)
    process.communicate()


def checkpoint(train_dir, step):
    return train_dir / f"model.ckpt-{step}.h5"


def checkpoints(train_dir):
    return sorted(train_dir.glob("model.ckpt-*")) if train_dir.exists() else []


def metrics(train_dir):
    return [json.loads(line) for line in (train_dir / "metrics.jsonl").read_text().splitlines()]


def losses(train_dir):
    """Returns {step: loss} of the training steps in metrics.jsonl."""
    return {line["step"]: line["loss"] for line in metrics(train_dir) if "loss" in line}


def relative_error(found, expected, initial):
    """Returns norm(found - expected) / norm(expected - initial)."""
    moved = np.linalg.norm(np.asarray(expected, np.float64) - initial)
    return float(np.linalg.norm(np.asarray(found, np.float64) - expected) / moved)


def worst(errors):
    """Returns the largest error, or infinity if an error is not finite. max() alone would ignore a NaN after the first
    value."""
    values = np.array(list(errors), np.float64)
    return float(values.max()) if np.isfinite(values).all() else float("inf")


def same_bits(first, second):
    """Returns a text about the first arrays that differ between two checkpoints; empty if all bits are equal."""
    a, b = load(first), load(second)
    if a.keys() != b.keys():
        return f"arrays differ: {sorted(a.keys() ^ b.keys())}"
    return ", ".join(name for name in a if a[name].tobytes() != b[name].tobytes())


def main(*checks, declare=lambda parser: None):
    """Runs the checks and prints a table. Each check is a function from Context to Results. Exits with 1 if a check
    failed. `declare` adds options of a check to the parser; Context.options contains their values."""
    parser = argparse.ArgumentParser(conflict_handler="resolve")  # several checks may declare --seed
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="directory of the programs")
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        default=pathlib.Path("/usr/share/datasets/fashion-mnist"),
        help="directory of the four IDX files (default: %(default)s)",
    )
    parser.add_argument(
        "--cifar10",
        type=pathlib.Path,
        default=cifar.SAMPLE,
        help="CIFAR-10's binary version, a folder or an archive (default: the tests' sample of 12 images)",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="device of the training")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for ctest")
    parser.add_argument("--keep", type=pathlib.Path, help="work in this directory and keep its files")
    parser.add_argument("--only", default="", help="run the checks with this text in their names")
    declare(parser)
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.error(f"--data: no directory {options.data}")
    if not options.cifar10.exists():
        parser.error(f"--cifar10: {options.cifar10} does not exist")
    work = (options.keep or pathlib.Path(tempfile.mkdtemp(prefix="carillon-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    paths = (options.bin.resolve(), options.data.resolve(), options.cifar10.resolve(), work)
    context = Context(*paths, options.quick, options.device, options)
    failures = count = 0
    try:
        for check in checks:
            if options.only not in check.__module__:
                continue
            before = count
            for result in _results(check, context):
                count += 1
                failures += not result.passed
                print(f"{'PASS' if result.passed else 'FAIL'}  {result.name:<58} {result.detail}", flush=True)
            if count == before:
                count, failures = count + 1, failures + 1
                print(f"FAIL  {check.__doc__.splitlines()[0]:<58} no result", flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    print(f"{count - failures} of {count} passed")
    sys.exit(1 if failures or not count else 0)


def _results(check, context):
    try:
        yield from check(context)
    except (ProgramFailed, OSError, KeyError, ValueError) as error:
        yield Result(check.__doc__.splitlines()[0], False, f"{type(error).__name__}: {error}")
