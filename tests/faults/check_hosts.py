"""Tests runs on two hosts (network namespaces, see hosts.py): a training on both hosts, a link that is cut, and a rank
that is stopped."""

import os
import re
import signal
import time
from pathlib import Path

import training  # noqa: F401  # finds the modules of tests/acceptance
from hosts import CONTROL, MESSAGES, TwoHosts

import check_kills
import programs
from bad_input import LOST, STOPPED
from processes import TIMEOUT, has_ended, rank_process, runs_program, wait_for
from programs import SCALED, ProgramFailed, Result, checkpoint, load, same_bits

STALL = 2  # seconds
# A run must end within this number of seconds: the stall detector's limit for ranks of other hosts after a checkpoint
# (1.5 * 4 * STALL), and 20 s in which mpirun ends the ranks.
IN_TIME = 1.5 * 4 * STALL + 20
SAVED = r"; saved step \d+ in \S+"
OPTIONS = (*SCALED, "--batch-size", 20, "--summary-every", 0, "--device", "cpu", "--stall-timeout", STALL)


def check(context):
    """two hosts"""
    data = context.small_set(1000)
    with TwoHosts() as hosts:
        yield _goes_on(context, data, hosts)
    with TwoHosts() as hosts:
        yield _looked_at(context, hosts)
        yield _rounded(context, data, hosts)
        yield from _staged(context, hosts)
    with TwoHosts() as hosts:
        yield _by_script(context, data, hosts)
    for ranks in (2, 4):
        with TwoHosts() as hosts:
            yield _cut_messages(context, data, hosts, ranks)
    with TwoHosts() as hosts:
        yield _cut_off(context, data, hosts)
    with TwoHosts() as hosts:
        yield _stopped(context, data, hosts)
    for ranks in (2, 4):
        yield check_kills.Chain(context, check_kills.ON_TWO_HOSTS, ranks, 0, 1).result_on_two_hosts()


def _start(context, data, hosts, ranks, run, *options):
    command = context.command("mnist_train", "--data", data / "train-*", "--train-dir", run, *OPTIONS, *options)
    launcher = [*hosts.launcher(ranks), "-x", "CARILLON_ERROR_FILE"]
    return context.start([*launcher, *command], {"CARILLON_ERROR_FILE": str(_error_file(run))})


def _error_file(run):
    """Returns the path of the file to which the ranks append their last messages."""
    return run.with_name(run.name + "-errors")


def _started(context, data, hosts, ranks):
    """Starts a run that would not end by itself, and waits for its first checkpoint. Returns (train directory,
    process)."""
    run = context.directory("hosts")
    _error_file(run).write_text("")
    process = _start(context, data, hosts, ranks, run, "--max-steps", 100000000, "--checkpoint-every", 50)
    wait_for(process, lambda: checkpoint(run, 50).exists(), "a first checkpoint")
    return run, process


def _goes_on(context, data, hosts):
    """A run on both hosts must end with the same results as a run on one host that averages by messages, and it must be
    able to resume."""
    run, whole = context.directory("hosts"), context.directory("hosts")
    for directory, steps in ((run, 30), (run, 60), (whole, 60)):
        done = context.finish(_start(context, data, hosts, 4, directory, "--max-steps", steps), TIMEOUT)
        if done.code or done.lines:
            raise ProgramFailed(done.output)
    differs = same_bits(checkpoint(run, 60), checkpoint(whole, 60))
    return Result("two hosts: a resumed run of 4 ranks ends like an undisturbed one", not differs, differs or "equal")


def _looked_at(context, hosts):
    """--preflight on both hosts must print three things: a row for each host, whether the lock of the train directory
    works on the second host, and the speed of messages between the hosts."""
    run = context.directory("preflight")
    command = context.command("mnist_train", "--preflight", "--train-dir", run, "--device", "cpu")
    done = context.finish(context.start([*hosts.launcher(4), *command]), TIMEOUT)
    expected = [r"^ +2  n2 +CPU:0", rf"^n1 +2  .+eth0 {CONTROL}.1, eth1 {MESSAGES}.1", rf"^n2 +2  .+{MESSAGES}.2"]
    expected += ["locks hold, from n2 too$", "averaging by mpi: 4 bytes in ", rf"sends through {MESSAGES}.0/24$"]
    missing = [pattern for pattern in expected if not re.search(pattern, done.output, re.M)]
    wrong = f"{missing}: {done.output}" if missing or done.code or run.exists() else ""
    return Result("two hosts: --preflight lists both", not wrong, wrong or "rows, interfaces, locks, averaging")


def _rounded(context, data, hosts):
    """--wire bf16: replicas must be equal at each checkpoint; the final variables must differ from the variables of a
    run with float32; a run that resumes must end with the same variables."""
    ends = {}
    for name, wire, steps in (("whole", "bf16", (40,)), ("resumed", "bf16", (20, 40)), ("exact", "fp32", (40,))):
        run = context.directory("wire")
        for last in steps:
            options = ("--max-steps", last, "--wire", wire, "--check-replicas", 1)
            done = context.finish(_start(context, data, hosts, 4, run, *options), TIMEOUT)
            if done.code or done.lines or ("averaged over mpi, bf16" in done.output) != (wire == "bf16"):
                raise ProgramFailed(done.explain())
        ends[name] = checkpoint(run, 40)
    wrong = same_bits(ends["whole"], ends["resumed"]) or ("" if same_bits(ends["whole"], ends["exact"]) else "not rounded")
    return Result("two hosts: --wire bf16 replicas are equal, also in a resumed run", not wrong, wrong or "equal")


def _staged(context, hosts):
    """Each host must copy files to its own /dev/shm: either all files, or only the files of its ranks."""
    data = context.small_set(1000)
    shards = context.directory("shards")
    shards.mkdir()
    for number in range(6):
        (shards / f"train-{number}").write_bytes(next(data.glob("train-*")).read_bytes())
    ends = {}
    for sharding, copied in (("record", 12), ("file", 6)):
        for staged in (False, True):
            run = context.directory("staged")
            options = ("--max-steps", 20, "--cache", "none", "--sharding", sharding)
            options += ("--stage", "/dev/shm/copies") if staged else ()
            done = context.finish(_start(context, shards, hosts, 4, run, *options), TIMEOUT)
            if done.code:
                raise ProgramFailed(done.explain())
            ends[staged] = checkpoint(run, 20)
        found = re.search(r"staged in /dev/shm/copies: (\d+) files copied", done.output)
        wrong = same_bits(ends[False], ends[True]) or ("" if found and int(found[1]) == copied else done.output)
        yield Result(f"two hosts: --sharding {sharding}, {copied} copies, the same end", not wrong, wrong or "equal")


def _by_script(context, data, hosts):
    """If jobs/multi_node_mpirun.sh starts a run, and the run is stopped and resumes, it must end with the same results
    as an undisturbed run."""
    script = Path(__file__).resolve().parents[2] / "jobs" / "multi_node_mpirun.sh"
    run, whole = context.directory("script"), context.directory("script")
    command = [*hosts.naming, script, hosts.host_file(2), *context.command("mnist_train", "--data", data / "train-*", *OPTIONS)]
    command += ["--checkpoint-every", "50"]

    def start(directory, steps):
        own = ["--train-dir", directory, "--max-steps", steps]
        return context.start([*map(str, command), *map(str, own)], hosts.environment())

    process = start(run, 100000000)
    wait_for(process, lambda: checkpoint(run, 50).exists(), "a first checkpoint")
    os.kill(process.pid, signal.SIGTERM)
    stopped = context.finish(process, TIMEOUT)
    last = max(int(path.name.split("-")[1].split(".")[0]) for path in run.glob("model.ckpt-*.h5"))
    ended = [context.finish(start(directory, last + 20), TIMEOUT) for directory in (run, whole)]
    codes = [stopped.code, *(done.code for done in ended)]
    differs = "" if codes == [STOPPED, 0, 0] else f"codes {codes}: {stopped.explain()}"
    differs = differs or same_bits(checkpoint(run, last + 20), checkpoint(whole, last + 20))
    title = "two hosts: jobs/multi_node_mpirun.sh, stopped and resumed, ends like an undisturbed run"
    return Result(title, not differs, differs or f"equal after {last} and 20 steps")


def _last_messages(run):
    """Returns the ranks' last messages, from the error file. On stderr, messages may be lost: Open MPI ends a host's
    daemon before it has sent all text."""
    return _error_file(run).read_text().splitlines()


def _left(run):
    """Returns what is wrong with the checkpoints of a run; empty if nothing is wrong."""
    found = sorted(run.glob("model.ckpt-*.h5"))
    return "" if found and all(load(path) for path in found) else "a checkpoint does not load"


def _cut_messages(context, data, hosts, ranks):
    run, process = _started(context, data, hosts, ranks)
    hosts.cut(MESSAGES)
    start = time.monotonic()
    done = context.finish(process, TIMEOUT)
    passed = time.monotonic() - start
    # A rank of either host may report ranks of the other host.
    expected = rf"rank \d on n[12]: waited \d+ s for ranks? [\d and]+ on n[12] in .+ without a response{SAVED}$"
    wrong = "" if done.code == LOST else done.explain()
    lines = _last_messages(run)
    if not wrong and not (1 <= len(lines) <= 2 and all(re.search(expected, line) for line in lines)):
        wrong = f"{len(lines)} messages: {' | '.join(lines)}"
    wrong = wrong or ("" if STALL < passed < IN_TIME else f"ended after {passed:.1f} s") or _left(run)
    title = f"two hosts: if the link of {ranks} ranks is cut, they are named and the run ends in time"
    return Result(title, not wrong, wrong or f"after {passed:.1f} s: {lines[0]}")


def _is_rank(pid):
    try:
        return runs_program(pid, "_train") and not has_ended(pid)
    except OSError:
        return False


def _cut_off(context, data, hosts):
    """If the second host is unreachable, mpirun waits for it, but the ranks of both hosts must end."""
    run, process = _started(context, data, hosts, 4)
    ranks = [rank_process(process, rank) for rank in range(4)]
    hosts.cut(CONTROL, MESSAGES)
    start = time.monotonic()
    wait_for(process, lambda: not any(_is_rank(pid) for pid in ranks), "no rank runs")
    passed = time.monotonic() - start
    programs.kill(process)
    wrong = "" if STALL < passed < IN_TIME else f"ended after {passed:.1f} s"
    wrong = wrong or _left(run)
    title = "two hosts: if a host is cut off completely, all 4 ranks end in time"
    return Result(title, not wrong, wrong or f"after {passed:.1f} s")


def _stopped(context, data, hosts):
    run, process = _started(context, data, hosts, 2)
    os.kill(rank_process(process, 1), signal.SIGSTOP)
    start = time.monotonic()
    done = context.finish(process, TIMEOUT)
    passed = time.monotonic() - start
    lines = _last_messages(run)
    expected = rf"mnist_train: rank 0 on n1: waited \d+ s for rank 1 on n2 in .+ without a response{SAVED}$"
    wrong = "" if done.code == LOST and len(lines) == 1 and re.match(expected, lines[0]) else done.explain()
    wrong = wrong or ("" if STALL < passed < IN_TIME else f"ended after {passed:.1f} s") or _left(run)
    title = "two hosts: a stopped rank that is alone on its host is named"
    return Result(title, not wrong, wrong or f"after {passed:.1f} s: {lines[0]}")


if __name__ == "__main__":
    programs.main(check)
