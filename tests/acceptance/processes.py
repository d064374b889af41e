"""Running training programs as processes to be watched, signalled and paired: what several checks share."""

import os
import pathlib
import re
import signal
import time

import programs
from programs import TIMEOUT


def wait_for(process, condition, what):
    """What `condition` returns once that is true; kills the process when it ends before, or takes too long."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := condition()):
        if process.poll() is not None or time.monotonic() > deadline:
            programs.kill(process)
            raise programs.ProgramFailed(f"{what}: not so before the program ended ({process.poll()})")
        time.sleep(0.002)
    return found


def rank_processes(process):
    """{rank: process id} of the ranks under mpirun that run a training program now."""
    found = {}
    for pid in programs.descendants(process.pid):
        try:
            rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)\0", pathlib.Path(f"/proc/{pid}/environ").read_bytes())
            if rank and os.readlink(f"/proc/{pid}/exe").endswith(("_train", "_eval")):
                found[int(rank[1])] = pid
        except OSError:
            continue
    return found


def rank_process(process, rank):
    """The process id of a rank under mpirun, once it runs one of the programs."""
    return wait_for(process, lambda: rank_processes(process).get(rank), f"rank {rank} runs")


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1)


def replace_in_memory(pid, old, new):
    """Puts `new` wherever a running process has `old`, as long as it, in memory of its own; in how many places.

    The process, which hangs meanwhile, may itself have no access to the memory just then, as to that of a fake
    GPU.
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
            except (OSError, OverflowError):  # [vvar], [vsyscall]
                continue
            place = content.find(old)
            while place >= 0:
                os.pwrite(memory.fileno(), new, start + place)
                count += 1
                place = content.find(old, place + len(old))
    return count


def faulty(context, call, path, **settings):
    """Environment with which a program's `call` on files whose path matches the pattern `path` is slow, fails or worse:
    nth, times, seconds, errno, action, log (tests/support/faulty_calls.cpp)."""
    places = [folder / "libfaulty_calls.so" for folder in (context.binaries, context.binaries.parent)]
    library = next(filter(pathlib.Path.exists, places), None)
    if library is None:
        raise programs.ProgramFailed(f"there is no {places[0]}: the tests are not built")
    given = {"call": call, "path": path, **settings}
    return {"LD_PRELOAD": str(library)} | {f"FAULT_{name.upper()}": str(value) for name, value in given.items()}


def two(context, first, second):
    """One rank of each command under one mpirun."""
    return context.run_command(programs.one_rank_each(first, second), TIMEOUT)


def each_in(context, folders, program, *options):
    """One rank of the same command in each of two folders."""
    command = (context.binaries / program, *options)
    return two(context, *(["bash", "-c", f'cd {folder} && exec "$0" "$@"', *command] for folder in folders))


def content(directory):
    """{name: bytes} of a train directory's files."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != ".lock"}


def changes(directory, before):
    """The names of what is not as `content` found it before; empty when all is."""
    after = content(directory)
    return ", ".join(name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))
