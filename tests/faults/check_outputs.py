"""Tests outputs that are not plain files. A program must never replace a device node or a FIFO. If the output is a
link, the program must replace only the link's target. Also tests outputs that exceed the file size limit."""

import os
import pathlib
import stat
import sys

import numpy as np
from cases import SMALL, judge, results, trained

import programs
from bad_input import IO
from png import png
from processes import TIMEOUT
from programs import Result, checkpoint, load

ENDINGS = {"--predictions": ".csv", "--mistakes": ".png"}  # file name extensions for options that do not accept .json
PLOT = pathlib.Path(__file__).resolve().parents[2] / "jobs/plot_runs.py"


def check(context):
    """outputs"""
    yield from results(context, (_named_outputs, _train_directory, _records, _file_size_limit))


def _make_fifo(path):
    os.mkfifo(path)


def _make_device(path):
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # a device node with the numbers of /dev/null


def _kinds():
    """Returns {kind: function that makes such a file}. Only root can make device nodes."""
    return {"FIFO": _make_fifo} | ({"device node": _make_device} if os.geteuid() == 0 else {})


def _identity(path):
    status = path.lstat()
    return status.st_ino, status.st_mode, status.st_rdev


def _commands(context, data, run):
    """Returns {name: function that makes a command from an output path}. There is an entry for each option that names
    an output."""
    folder = context.directory("inputs")
    folder.mkdir()
    np.savez(folder / "in.npz", **{"variables/layer2/biases": load(checkpoint(run, 20))["variables/layer2/biases"]})
    (folder / "in.png").write_bytes(png(np.zeros((28, 28, 3), np.uint8)))
    (records,) = data.glob("test-*")
    tool = lambda *words: context.command("checkpoint_tool", *words)
    return {
        "export": lambda out: tool("export", "--onnx", out, run),
        "export-npz": lambda out: tool("export-npz", run, out),
        "average": lambda out: tool("average", "--output", out, run, run),
        "import-npz": lambda out: tool("import-npz", "--output", out, run, folder / "in.npz"),
        "--show": lambda out: context.command("tfrecord_inspect", "--show", 2, "--output", out, records),
        "--report": lambda out: context.command("mnist_eval", "--data", records, "--checkpoint", run, "--report", out),
        "--predictions": lambda out: context.command(
            "mnist_eval", "--data", records, "--checkpoint", run, "--predictions", out
        ),
        "--mistakes": lambda out: context.command("mnist_eval", "--data", records, "--checkpoint", run, "--mistakes", out),
        "--images": lambda out: context.command(
            "carillon_predict", "--checkpoint", run, "--images", out, folder / "in.png"
        ),
        "plot_runs.py": lambda out: [sys.executable, str(PLOT), "-o", str(out), str(run)],
    }


def _named_outputs(context, data):
    """an output that an option names"""
    run = trained(context, data, 20)
    for name, command in _commands(context, data, run).items():
        ending = ENDINGS.get(name, ".json")
        for kind, make in _kinds().items():
            folder = context.directory("outputs")
            folder.mkdir()
            output = folder / f"out{ending}"
            make(output)
            before = _identity(output)
            done = context.run_command(command(output), TIMEOUT)
            wrong = "" if _identity(output) == before else "it was replaced"
            wrong = wrong or ("" if len(list(folder.iterdir())) == 1 else "a temporary file remains")
            yield judge(f"{name} to a {kind}", done, IO, [str(output), "not a regular file"], wrong)
        folder = context.directory("outputs")
        (folder / "elsewhere").mkdir(parents=True)
        plain, link, target = folder / f"plain{ending}", folder / f"link{ending}", folder / "elsewhere/target"
        link.symlink_to("elsewhere/target")
        done = [context.run_command(command(output), TIMEOUT) for output in (plain, link, link)]
        wrong = done[0].complaint(0) or done[1].complaint(0) or done[2].complaint(0)
        wrong = wrong or ("" if link.is_symlink() and target.is_file() else "the link was replaced")
        wrong = wrong or ("" if target.read_bytes() == plain.read_bytes() else "the target has other contents")
        yield Result(f"faults: {name} to a link", not wrong, wrong or "writes the target")


def _train_directory(context, data):
    """files of a train directory"""
    for kind, make in _kinds().items():
        run = trained(context, data, 20)
        occupied = checkpoint(run, 40)
        make(occupied)
        before = _identity(occupied)
        options = ("--data", data / "train-*", "--train-dir", run, *SMALL, "--max-steps", 40)
        for more, name in (((), "a checkpoint's name is a"), (("--fresh",), "--fresh with a")):
            command = context.command("mnist_train", *options, "--checkpoint-failures", 0, *more)
            done = context.run_command(command, TIMEOUT)
            lines = [line for line in done.lines if not line.startswith("warning: ")]
            wrong = "" if done.code == IO and len(lines) == 1 and str(occupied) in lines[0] else done.explain()
            wrong = wrong or ("" if _identity(occupied) == before else "it was replaced")
            wrong = wrong or ", ".join(path.name for path in run.glob("*.tmp"))
            yield Result(f"faults: {name} {kind}", not wrong, wrong or lines[0])


def _records(context, data):
    """record files"""
    source = context.work / "idx-1000-100"
    for kind, make in _kinds().items():
        target = context.directory("records")
        target.mkdir()
        output = target / "test-00000-of-00001.tfrecord"
        make(output)
        before = _identity(output)
        done = context.run("tfrecord_convert", "mnist", "--input", source, "--output", target, expect=None)
        wrong = "" if _identity(output) == before else "it was replaced"
        yield judge(f"a record file's name is a {kind}", done, IO, [output.name], wrong)


def _file_size_limit(context, data):
    """outputs above the file size limit (ulimit -f)"""
    limited = ["bash", "-c", 'ulimit -f 0; exec "$0" "$@"']
    run = trained(context, data, 20)
    commands = _commands(context, data, run)
    convert = lambda out: context.command("tfrecord_convert", "mnist", "--input", context.work / "idx-1000-100", "--output", out)
    for name, command in {**commands, "tfrecord_convert": convert}.items():
        # Omits the options of mnist_eval, because MPI itself must write files.
        if name in ("--report", "--predictions", "--mistakes", "plot_runs.py"):
            continue
        folder = context.directory("outputs")
        folder.mkdir()
        output = folder / "out.json"
        done = context.run_command([*limited, *map(str, command(output))], TIMEOUT)
        left = [path.name for path in folder.rglob("*") if path.is_file()]
        yield judge(f"{name} above the file size limit", done, IO, [output.name], f"left {left}" if left else "")


if __name__ == "__main__":
    programs.main(check)
