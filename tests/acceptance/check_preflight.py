"""--preflight prints a table of ranks and hosts, rejects bad settings and leaves no files. Also tests a run in which
two ranks run different builds of the program."""

import os
import re
import shlex
import socket

import programs
from bad_input import IO, NO_INPUT, USAGE
from processes import wait_for
from programs import SCALED, ProgramFailed, Result, checkpoint

FAKE = "fake_cuda/mnist_train"
READY = "preflight: ready; data and checkpoints were not checked\n"


def check(context):
    """preflight"""
    for case in (_tells, _micro_batches, _leaves_directories, _held, _unwritable, _no_data, _gpus, _builds):
        yield from case(context)


def _preflight(context, run, ranks, *options, program="mnist_train"):
    fixed = ("--preflight", "--train-dir", run, *options)
    return context.run(program, *fixed, ranks=ranks, expect=None)


def _result(title, wrong, detail=""):
    return Result(f"preflight: {title}", not wrong, wrong or detail)


def _refused(title, done, code, names):
    return _result(title, done.complaint(code, names), done.lines[0] if done.lines else "")


UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def _averaging_fault(output, ranks):
    """Returns what is wrong with the line about averaging; empty if nothing is wrong.
    tests/train/preflight_averaging_mpi_test.cpp tests wrong means."""
    lines = [line for line in output.splitlines() if line.startswith("averaging")]
    if len(lines) != 1:
        return f"{len(lines)} lines on averaging"
    if ranks == 1:
        return "" if lines == ["averaging: one rank has nothing to average"] else lines[0]
    found = re.fullmatch(
        r"averaging by .*shared memory: 4 bytes in \d+\.\d us; the 1\.59 MB of mnist's gradients in (\d+\.\d\d) ms, "
        r"([\d.]+) (\w+)/s; the means are right", lines[0])  # fmt: skip
    if not found:
        return lines[0]
    milliseconds, rate = float(found[1]), float(found[2]) * UNITS[found[3]]
    gradients = 4 * 397_510  # bytes
    rounding = 0.005  # largest rounding error of the printed milliseconds
    slowest = gradients / (milliseconds + rounding) * 1e3
    fastest = gradients / (milliseconds - rounding) * 1e3 if milliseconds > rounding else float("inf")
    return "" if 0.99 * slowest <= rate <= 1.01 * fastest else f"the rate is not bytes by time: {lines[0]}"


def _tells(context):
    """--preflight must print all required lines at 1, 2 and 4 ranks."""
    host = re.escape(socket.gethostname())
    for ranks in (1, 2, 4):
        run = context.directory("looked-at")
        done = _preflight(context, run, ranks, "--device", "cpu")
        rows = re.findall(rf"^ +(\d+)  {host} +CPU:0, \w+ +(\d+)  ([\d,-]+)$", done.output, re.M)
        expected = {
            "a row for each rank": [int(row[0]) for row in rows] == list(range(ranks)),
            "a row for the host": re.search(rf"^{host} +{ranks}  [0-9.]+ [MGT]B  +", done.output, re.M),
            "versions": "Open MPI " in done.output and "HDF5 " in done.output,
            "the train directory": re.search(r"looked-at-\d+: [0-9.]+ [MGT]B free; locks hold$", done.output, re.M),
            "averaging": not _averaging_fault(done.output, ranks),
            "the end": done.output.endswith(READY),
        }
        missing = [name for name, found in expected.items() if not found]
        wrong = f"{missing}: {done.output} {done.explain()}" if missing or done.code else ""
        wrong = wrong or ("it did not remove the train directory" if run.exists() else "")
        yield _result(f"{ranks} ranks are listed", wrong, " ".join(expected))
    oversubscribed = [line for line in done.lines if "share the CPUs" in line]
    needed = len(os.sched_getaffinity(0)) < 4
    yield _result("shared CPUs are reported", "" if bool(oversubscribed) == needed else str(done.lines))


def _micro_batches(context):
    """With micro-batches, --preflight must report correct means, although it divides a sum of gradients by another
    number than the number of towers."""
    run = context.directory("micro")
    done = _preflight(context, run, 2, "--device", "cpu", "--global-batch", 96, "--micro-batch", 12)
    right = done.code == 0 and "the means are right" in done.output and done.output.endswith(READY)
    yield _result("means of micro-batches are right", "" if right else done.explain())


def _leaves_directories(context):
    """--preflight must not change the files of a run in the train directory."""
    data, run = context.small_set(200), context.directory("trained")
    context.train(*SCALED, "--max-steps", 2, "--batch-size", 10, data=data / "train-*", train_dir=run)
    def files(folder):
        return sorted((path.name, path.read_bytes()) for path in folder.iterdir() if path.name != ".lock")

    before = files(run)
    done = _preflight(context, run, 2, "--device", "cpu")
    wrong = done.complaint(0) or ("" if before == files(run) else f"{files(run)}"[:300])
    yield _result("a trained directory does not change", wrong)
    folder = context.directory("folder")
    folder.mkdir()
    (folder / "notes").write_text("mine")
    for place in (folder, folder / "to" / "be" / "made"):
        done = _preflight(context, f"{place}/", 2, "--device", "cpu")
        left = sorted(path.name for path in folder.iterdir())
        wrong = done.complaint(0) or ("" if left == ["notes"] else f"{left}")
        yield _result(f"nothing is left in {'a folder' if place == folder else 'folders that it makes'}", wrong)
    done = context.run_command(["sh", "-c", f"{context.binaries}/mnist_train --preflight --device cpu --train-dir {folder} >/dev/full"])
    yield _refused("a full standard output ends it", done, IO, ["standard output"])
    done = context.run("mnist_train", "--share-gpus", "--train-dir", run, expect=None)
    yield _refused("--share-gpus without --preflight is rejected", done, USAGE, ["--share-gpus"])


def _held(context):
    data, run = context.small_set(200), context.directory("held")
    fixed = ("--data", data / "train-*", "--train-dir", run, "--device", "cpu", *SCALED, "--summary-every", 0)
    process = context.start(context.command("mnist_train", *fixed, "--max-steps", 10**8, "--checkpoint-every", 20))
    try:
        wait_for(process, lambda: checkpoint(run, 20).exists(), "a first checkpoint")
        done = _preflight(context, run, 2, "--device", "cpu")
    finally:
        programs.kill(process)
    yield _refused("a train directory that is in use is rejected", done, USAGE, [str(process.pid)])


def _unwritable(context):
    done = _preflight(context, "/proc/nothing", 2, "--device", "cpu")
    yield _refused("a train directory that cannot be made is rejected", done, IO, ["/proc/nothing"])


def _no_data(context):
    """--preflight must work without records, but must report if a file that an option names does not exist."""
    empty = context.directory("empty")
    empty.mkdir()

    def preflight_in(folder, program, *options, ranks=2):
        command = context.command(program, "--preflight", "--device", "cpu", "--train-dir", "run", *options, ranks=ranks)
        return context.run_command(["sh", "-c", f"cd {folder} && exec {shlex.join(command)}"])

    small = ("--model", "resnet9", "--image-size", 32)
    assumed = "no data: assumes 1000 classes; --data or --classes sets the number\n"
    cases = {  # program, options, beginning of the output, size of the gradients
        "mnist_train": ("mnist_train", (), "mnist_train (", "1.59 MB of mnist's"),
        "cifar10_train": ("cifar10_train", (), "cifar10_train (", "of cifar10's"),
        "image_train": ("image_train", small, assumed, "28.3 MB of resnet9's"),
        "image_train --classes": ("image_train", (*small, "--classes", 10), "image_train (", "26.3 MB of resnet9's"),
    }
    for name, (program, options, start, gradients) in cases.items():
        done = preflight_in(empty, program, *options)
        right = done.output.startswith(start) and gradients in done.output and done.output.endswith(READY)
        wrong = done.complaint(0) or ("" if right and not list(empty.iterdir()) else done.output)
        yield _result(f"{name} needs no data", wrong)
    for program in ("mnist_train", "image_train"):
        for option in ("--data", "--eval-data"):
            for pattern, cause in (("none-*", "no file matches"), ("none", "no such file")):
                done = preflight_in(empty, program, option, pattern, ranks=1)
                yield _refused(f"{program} {option} {pattern} is rejected", done, NO_INPUT, [f"{pattern}: {cause}"])

    filled = context.directory("filled")
    (filled / "data/mnist").mkdir(parents=True)
    (filled / "data/mnist/train-0").touch()
    command = f"{context.binaries}/mnist_train --preflight --device cpu --train-dir run"
    done = context.run_command(programs.one_rank_each(*(["sh", "-c", f"cd {place} && exec {command}"] for place in (filled, empty))))
    yield _refused("data on one host only are rejected", done, USAGE, ["disagree on whether the default data files exist"])


def _gpus(context):
    """Runs --preflight on a machine with one simulated GPU."""
    run = context.directory("gpus")
    done = _preflight(context, run, 1, "--device", "cuda", program=FAKE)
    wrong = done.complaint(0) or ("" if "GPU:0" in done.output else done.output)
    yield _result("a rank on a GPU is listed", wrong)
    done = _preflight(context, run, 2, "--device", "cuda", program=FAKE)
    said = [line for line in done.lines if not line.startswith("warning: ")]
    good = done.code == USAGE and len(said) == 1 and "ranks 0 and 1 share" in said[0] and "--share-gpus" in said[0]
    yield _result("two ranks on one GPU are rejected", "" if good else done.explain(), said[0] if said else "")
    done = _preflight(context, run, 2, "--device", "cuda", "--share-gpus", program=FAKE)
    ready = done.code == 0 and "staged" in done.output and done.output.endswith(READY)
    yield _result("two ranks on one GPU are listed with --share-gpus", "" if ready else done.explain())


def _builds(context):
    """--preflight must report different builds: one rank runs a copy of the program in which the name of the commit is
    changed."""
    program = context.binaries / "mnist_train"
    version = context.run("mnist_train", "--version").output
    found = re.search(r"(\d+\.\d+\.\d+)(, commit ([0-9a-f]+))?", version)
    if not found:
        raise ProgramFailed(f"no version: {version}")
    own = (found[3] or found[1]).encode()
    other = own[:-1] + (b"0" if own[-1:] != b"0" else b"1")
    copy = context.directory("other")
    copy.mkdir()
    changed = copy / "mnist_train"
    text = program.read_bytes()
    changed.write_bytes(text.replace(own + b"\0", other + b"\0").replace(own + b"-changed\0", other + b"-changed\0"))
    changed.chmod(0o755)
    options = ["--train-dir", str(context.directory("run")), "--max-steps", "0", "--device", "cpu"]
    done = context.run_command(programs.one_rank_each([program, *options], [changed, *options]))
    yield _refused("ranks of different builds are rejected", done, USAGE, ["disagree on the program and its build", own.decode(), other.decode()])


if __name__ == "__main__":
    programs.main(check)
