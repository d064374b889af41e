"""Tests runs with a small /dev/shm, as in a Docker container, and runs whose ranks cannot share a memory file.

Needs root and `unshare`: each run has its own mount namespace with its own /dev/shm.
"""

import errno
import os
import re

import training  # noqa: F401  # finds the modules of tests/acceptance

import programs
from bad_input import IO
from processes import TIMEOUT, faulty
from programs import Result, checkpoint, same_bits

# The network has 11.2 million parameters. Two ranks need more than twice the size of a Docker container's /dev/shm.
LARGE = ("cifar10_train", "--model", "resnet18_cifar", "--data", "synthetic", "--batch-size", 2, "--threads", 1,
         "--device", "cpu", "--summary-every", 0)  # fmt: skip
DOCKERS = "64m"


def check(context):
    """shared memory"""
    expected = context.directory("expected")
    yield _result("a large /dev/shm", _train(context, "1g", expected))
    expected = checkpoint(expected, 2)
    yield from _small(context, expected)
    yield from _without_memory_files(context, expected)
    yield from _other_process_numbers(context)
    yield from _no_room(context)


def _result(title, done, wrong="", code=0, names=()):
    wrong = done.complaint(code, names) or wrong
    return Result(f"shared memory: {title}", not wrong, wrong or (done.lines[0] if code else "exit code 0"))


def _with_dev_shm(size, command):
    script = 'mount -t tmpfs -o "size=$0,mode=1777" tmpfs /dev/shm && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, size, *command]


def _run(context, size, command, environment=()):
    return context.finish(context.start(_with_dev_shm(size, command), environment), TIMEOUT)


def _train(context, size, run, environment=()):
    command = context.command(*LARGE, "--max-steps", 2, "--train-dir", run, ranks=2)
    return _run(context, size, command, environment)


def _preflight(context, size, environment=()):
    options = ("--device", "cpu", "--preflight", "--train-dir", context.directory("none"))
    command = context.command(*LARGE[:3], *options, ranks=2)
    return _run(context, size, command, environment)


def _without_warning(done):
    """Returns the finished run without its warnings about shared memory, and these warnings."""
    warnings = [line for line in done.lines if line.startswith("warning: the shared memory")]
    rest = "".join(f"{line}\n" for line in done.lines if line not in warnings)
    return programs.Finished(done.command, done.code, done.output, rest), warnings


def _small(context, expected):
    run = context.directory("small")
    done = _train(context, DOCKERS, run)
    wrong = done.complaint(0) or same_bits(expected, checkpoint(run, 2))
    yield _result("a /dev/shm of 64 MiB changes nothing", done, wrong)
    done = _preflight(context, DOCKERS)
    found = re.search(r"^shared memory: [0-9.]+ MB per rank, in memory$", done.output, re.M)
    found = found and re.search(r"^\S+ +2  [0-9.]+ GB +\d\d\.\d MB ", done.output, re.M)
    yield _result("--preflight prints the need and the room", done, "" if found else done.output)


def _without_memory_files(context, expected):
    for size, place in (("1g", "/dev/shm"), (DOCKERS, "the temporary directory")):
        run, temporary = context.directory("file"), context.directory("temporary")
        temporary.mkdir()
        environment = faulty(context, "memfd_create", "carillon-*", errno=errno.EPERM) | {"TMPDIR": str(temporary)}
        done, warnings = _without_warning(_train(context, size, run, environment))
        wrong = done.complaint(0) or same_bits(expected, checkpoint(run, 2))
        if size == DOCKERS:
            names = (str(temporary), "Operation not permitted", "/dev/shm has ", " free, of which MPI needs 16.8 MB")
            missing = [name for name in names if not warnings or name not in warnings[0]]
            wrong = wrong or (f"{missing} in {warnings}" if missing or len(warnings) != 1 else "")
        else:
            wrong = wrong or (f"{warnings}" if warnings else "")
        left = [path.name for path in temporary.iterdir() if path.name.startswith("carillon")]
        yield _result(f"without memory files, the ranks share a file in {place}", done, wrong or ", ".join(left))


def _other_process_numbers(context):
    """Simulates ranks in separate containers that share /dev/shm. In such containers, Open MPI's own shared memory
    would crash, so the test switches it off."""
    options = ("--preflight", "--device", "cpu", "--train-dir", context.directory("apart"))
    command = context.command("mnist_train", *options)
    launcher = ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,tcp"]
    done = _run(context, "1g", [*launcher, "unshare", "--pid", "--fork", "--mount-proc", *command])
    found = re.search(r"^shared memory: [0-9.]+ MB per rank, in a file in /dev/shm$", done.output, re.M)
    yield _result("ranks in different PID namespaces share a file", done, "" if found else done.output)


def _no_room(context):
    environment = faulty(context, "memfd_create,statvfs", "*", errno=errno.ENOSPC)
    names = ["2 ranks require ", " of shared memory: ", "memory file: No space left on device", "/dev/shm: No space",
             "/tmp: No space", "TMPDIR", "--shm-size=1g"]  # fmt: skip
    run = context.directory("no-room")
    done = _train(context, DOCKERS, run, environment)
    yield _result("without room, the line names need, places and the way to more", done, "", IO, names)
    yield _result("--preflight finds that, too", _preflight(context, DOCKERS, environment), "", IO, names)


if __name__ == "__main__":
    if os.geteuid() != 0:
        raise SystemExit("requires root, to mount /dev/shm in a namespace")
    programs.main(check)
