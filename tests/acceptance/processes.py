"""Helpers of several checks: functions that watch and signal the processes of training programs, and that start two
programs as the ranks of one run."""

import os
import pathlib
import re
import signal
import time

import programs
from programs import TIMEOUT


def wait_for(process, condition, what):
    """Waits until `condition` returns a true value, and returns this value. If the process ends first, or if the wait
    takes too long, kills the process and raises an error."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := condition()):
        if process.poll() is not None or time.monotonic() > deadline:
            programs.kill(process)
            raise programs.ProgramFailed(f"{what}: this did not happen before the program ended ({process.poll()})")
        time.sleep(0.002)
    return found


def runs_program(pid, endings):
    """Returns whether the process runs Carillon under a name that ends with one of `endings`. Raises OSError if the
    process has ended."""
    name = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 1)[0].decode(errors="replace")
    return os.readlink(f"/proc/{pid}/exe").endswith("/carillon") and name.endswith(endings)


def rank_processes(process):
    """Returns {rank: process id} of the ranks of mpirun `process`. Omits ranks that do not run a training program at
    this moment."""
    found = {}
    for pid in programs.descendants(process.pid):
        try:
            rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)\0", pathlib.Path(f"/proc/{pid}/environ").read_bytes())
            if rank and runs_program(pid, ("_train", "_eval")):
                found[int(rank[1])] = pid
        except OSError:
            continue
    return found


def rank_process(process, rank):
    """Waits until mpirun's rank `rank` runs a program. Returns its process id."""
    return wait_for(process, lambda: rank_processes(process).get(rank), f"rank {rank} runs")


def has_ended(pid):
    """Returns whether the main thread of a process has ended. A zombie counts as ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] in "ZX"
    except OSError:
        return True


def catches(pid, number):
    """Returns whether the process has a handler for the signal."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1)


def replace_in_memory(pid, old, new):
    """Replaces `old` by `new`, of equal length, everywhere in a running process's private memory; returns the number of
    places.

    The process is stopped during the replacement. Some memory may be inaccessible to the process itself, such as the
    memory of the fake GPU.
    """
    os.kill(pid, signal.SIGSTOP)
    try:
        return _replace_in_memory(pid, old, new)
    finally:
        os.kill(pid, signal.SIGCONT)


def _replace_in_memory(pid, old, new):
    count = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            first, last, access = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            start, size = int(first, 16), int(last, 16) - int(first, 16)
            if access[3] != "p" or size > 1 << 30:
                continue
            try:
                content = os.pread(memory.fileno(), size, start)
            except (OSError, OverflowError):  # such as [vvar] and [vsyscall]
                continue
            place = content.find(old)
            while place >= 0:
                os.pwrite(memory.fileno(), new, start + place)
                count += 1
                place = content.find(old, place + len(old))
    return count


def faulty(context, call, path, **settings):
    """Returns environment variables that make the system call `call` slow or faulty for files that match the pattern
    `path`. tests/support/faulty_calls.cpp explains the settings nth, times, seconds, errno, action and log."""
    places = [folder / "libfaulty_calls.so" for folder in (context.binaries, context.binaries.parent)]
    library = next(filter(pathlib.Path.exists, places), None)
    if library is None:
        raise programs.ProgramFailed(f"{places[0]} does not exist: build the tests first")
    given = {"call": call, "path": path, **settings}
    return {"LD_PRELOAD": str(library)} | {f"FAULT_{name.upper()}": str(value) for name, value in given.items()}


def two(context, first, second):
    """Runs one mpirun with two ranks, each with its own command."""
    return context.run_command(programs.one_rank_each(first, second), TIMEOUT)


def each_in(context, folders, program, *options):
    """Runs one mpirun with two ranks that run the same command, each in its own folder."""
    command = (context.binaries / program, *options)
    return two(context, *(["bash", "-c", f'cd {folder} && exec "$0" "$@"', *command] for folder in folders))


def content(directory):
    """Returns {name: bytes} of the files in a train directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != ".lock"}


def changes(directory, before):
    """Returns the names of the files whose content differs from `before`, an earlier result of `content`; empty if no
    file differs."""
    after = content(directory)
    return ", ".join(name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))
