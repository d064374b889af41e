"""Tests files that cannot be written, because of a full disk, a failing disk, a read-only train directory, or a closed
output."""

import errno
import os
import re
import resource
import subprocess
import sys

from cases import SMALL, initial, judge, results, start, train, trained

import programs
from bad_input import IO
from processes import TIMEOUT, changes, content, faulty, rank_process, wait_for
from programs import Result, checkpoint, checkpoints, load, same_bits


def check(context):
    """disk"""
    yield from results(context, (_full_disk, _failed_once, _no_space, _closed_output, _read_only_directory))


def _full_disk(context, data):
    """a full disk at a checkpoint"""
    run = context.directory("faults")
    process = start(
        context, data, run, "--max-steps", 1000000, "--checkpoint-every", 200, "--keep-checkpoints", 0,
        "--checkpoint-failures", 0,
    )  # fmt: skip
    wait_for(process, lambda: checkpoint(run, 200).exists(), "a first checkpoint")
    # From now on, rank 0 cannot write files larger than half a checkpoint.
    limit = checkpoint(run, 200).stat().st_size // 2
    resource.prlimit(rank_process(process, 0), resource.RLIMIT_FSIZE, (limit, limit))
    done = context.finish(process, TIMEOUT)
    left = [path.name for path in run.iterdir() if path.name.endswith(".tmp")]
    yield judge("full disk at a checkpoint", done, IO, ["model.ckpt-"], f"left {left}" if left else "")
    wrong = [path.name for path in checkpoints(run) if not load(path)]
    again = context.run(
        "mnist_eval", "--data", data / "test-*", "--checkpoint", run, expect=None, timeout=TIMEOUT
    )  # fmt: skip
    yield judge("full disk: the older checkpoint loads", again, 0, wrong=", ".join(wrong))


def _failed_once(context, data):
    """a checkpoint that fails once"""
    steps, every = 900, 300
    expected = checkpoint(trained(context, data, steps), steps)
    fault = faulty(context, "fsync", f"*model.ckpt-{every}.*", errno=errno.EIO, times=1)
    for failures in (1, 0):
        run = context.directory("faults")
        options = ("--checkpoint-every", every, "--keep-checkpoints", 0, "--checkpoint-failures", failures)
        done = context.finish(start(context, data, run, "--max-steps", steps, *options, environment=fault), TIMEOUT)
        kept = [int(re.search(r"ckpt-(\d+)", path.name)[1]) for path in checkpoints(run) if load(path)]
        if failures:
            told = [line for line in done.lines if line.startswith("warning: ") and "Input/output error" in line]
            wrong = "" if done.code == 0 and len(told) == len(done.lines) == 1 else done.explain()
            wrong = wrong or same_bits(expected, checkpoint(run, steps))
            yield Result("faults: training continues after one failed checkpoint", not wrong, wrong or told[0])
            continue
        wrong = "" if len(kept) == 1 and every < kept[0] < 2 * every else f"checkpoints of {kept}"
        names = [f"model.ckpt-{every}.h5", "Input/output error", "--checkpoint-failures 0"]
        yield judge("--checkpoint-failures 0 ends at the first failure, with a checkpoint", done, IO, names, wrong)
        done = train(context, data / "train-*", run, "--max-steps", steps)
        yield judge("and resumes from it", done, 0, wrong=same_bits(expected, checkpoint(run, steps)))


def _no_space(context, data):
    """no room for a checkpoint"""
    run = context.directory("small")
    full = faulty(context, "statvfs", run, action="full")
    done = context.finish(start(context, data, run, "--max-steps", 5, environment=full), TIMEOUT)
    left = ", ".join(path.name for path in checkpoints(run))
    yield judge("no room for a checkpoint is found before step 1", done, IO, [str(run), "MiB are free"], left)


def _closed_output(context, data):
    """closed output"""
    expected = checkpoint(trained(context, data, 20), 20)
    for name, redirection in (("stdout", ">&-"), ("stderr", "2>&-"), ("both", ">&- 2>&-")):
        run = context.directory("faults")
        command = context.command(
            "mnist_train", "--data", data / "train-*", "--train-dir", run, "--device", "cpu", *SMALL, "--max-steps", 20,
            "--log-every", 5, ranks=2,
        )  # fmt: skip
        at = command.index(str(context.binaries / "mnist_train"))
        command[at:at] = ["bash", "-c", f'exec "$0" "$@" {redirection}']
        done = context.run_command(command, TIMEOUT)
        wrong = f"exit code {done.code}" if done.code else same_bits(expected, checkpoint(run, 20))
        found = [] if wrong else list(programs.losses(run))
        wrong = wrong or ("" if found == [0, 5, 10, 15] else f"logged steps {found}")
        yield Result(f"faults: training continues with {name} closed", not wrong, wrong or "the same checkpoint and log")
    closed = [sys.executable, "-c", "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"]
    for program, *options in (
        ("mnist_eval", "--data", data / "test-*", "--checkpoint", expected),
        ("checkpoint_tool", "verify", expected),
    ):
        done = context.run_command([*closed, *context.command(program, *options)], TIMEOUT)
        yield judge(f"{program} with stdout closed", done, IO, ["standard output"])
    with open("/dev/full", "w") as full:
        command = context.command("mnist_eval", "--data", data / "test-*", "--checkpoint", expected)
        done = subprocess.run(
            command, env=context.environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT
        )
    done = programs.Finished(command, done.returncode, "", done.stderr)
    yield judge("mnist_eval to a full disk", done, IO, ["standard output"])


def _read_only_directory(context, data):
    """a read-only train directory"""
    run = initial(context, data)
    run.chmod(0o555)
    try:
        command = context.command(
            "mnist_train", "--data", data / "train-*", "--train-dir", run, "--device", "cpu", "--max-steps", 5
        )
        if os.geteuid() == 0:  # without these capabilities, a read-only directory also stops root
            command = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search", *command]
        before = content(run)
        done = context.run_command(command, TIMEOUT)
        yield judge("a read-only train directory with a lock file", done, IO, [str(run)], changes(run, before))
    finally:
        run.chmod(0o755)


if __name__ == "__main__":
    programs.main(check)
