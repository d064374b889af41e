"""h5py and h5dump can read checkpoints. The names, shapes and attributes in checkpoints are as documented."""

import json
import re
import shutil
import signal
import subprocess

import h5py
import numpy as np

import programs
from processes import TIMEOUT, rank_process, wait_for
from programs import SCALED, Result, checkpoint, checkpoints, same_bits

SHAPES = {"layer1/weights": (784, 500), "layer1/biases": (500,), "layer2/weights": (500, 10), "layer2/biases": (10,)}


def check(context):
    """checkpoint format and evaluation"""
    data = context.small_set(500, 103)
    run = context.directory("format")
    context.train(
        *SCALED, "--max-steps", 20, "--checkpoint-every", 4, "--keep-checkpoints", 2, data=data / "train-*.tfrecord",
        train_dir=run, ranks=2,
    )  # fmt: skip
    names = sorted(path.name for path in run.glob("model*"))
    yield Result("checkpoint: the newest 2 kept", names == ["model.ckpt-16.h5", "model.ckpt-20.h5"], ", ".join(names))
    path = checkpoint(run, 20)
    yield from _contents(path)
    if shutil.which("h5dump"):
        dump = subprocess.run(["h5dump", "-H", str(path)], check=False, capture_output=True, text=True)
        good = dump.returncode == 0 and "moving_averages" in dump.stdout
        yield Result("checkpoint: h5dump opens it", good, f"exit code {dump.returncode}")
    else:
        yield Result("checkpoint: h5dump opens it", False, "no h5dump: jobs/install_deps.sh --tests")
    yield from _evaluation(context, data, path)
    yield from _by_time(context, data)
    yield from _best(context, data)


def _contents(path):
    wrong = []
    with h5py.File(path, "r") as file:
        for group in ("variables", "moving_averages"):
            for name, shape in SHAPES.items():
                item = file[f"{group}/{name}"]
                if item.shape != shape or item.dtype != np.float32:
                    wrong.append(f"{group}/{name} is {item.dtype}{item.shape}")
        attributes = dict(file.attrs)
    for name, expected in (("global_step", 20), ("seed", None), ("format_version", 4), ("model", "mnist")):
        value = attributes.get(name)
        value = value.decode() if isinstance(value, bytes) else value
        if value is None or (expected is not None and value != expected):
            wrong.append(f"attribute {name} is {value!r}")
    if not any(_is_options(value) for value in attributes.values()):
        wrong.append("no attribute contains the options as JSON")
    yield Result("checkpoint: names, shapes, attributes", not wrong, "; ".join(wrong) or ", ".join(sorted(attributes)))


def _is_options(value):
    try:
        options = json.loads(value)
    except (TypeError, ValueError):
        return False
    return isinstance(options, dict) and any("batch" in key for key in options)


def _evaluation(context, data, path):
    """Compares mnist_eval with numpy at 1, 2 and 3 ranks. The 103 records are not divisible by 2 or 3, so some ranks
    evaluate fewer records."""
    from reference_mnist import read_set

    images, labels = read_set(sorted(data.glob("test-*.tfrecord")))
    arrays = programs.load(path)
    for group, options in (("moving_averages", ()), ("variables", ("--raw-weights",))):
        w1, b1, w2, b2 = (arrays[f"{group}/{name}"].astype(np.float64) for name in SHAPES)
        logits = np.maximum(images / 255.0 @ w1 + b1, 0) @ w2 + b2
        right = int((logits.argmax(axis=1) == labels).sum())
        expected = f"precision @ 1 = {right / len(labels):.3f} ({right}/{len(labels)})"
        for ranks in (0, 2, 3):
            done = context.run(
                "mnist_eval", "--data", data / "test-*.tfrecord", "--checkpoint", path.parent, *SCALED[:2], *options,
                ranks=ranks,
            )  # fmt: skip
            found = re.findall(r"precision @ 1 = .*", done.output)
            title = f"checkpoint: evaluation of {group}, {ranks or 1} ranks"
            yield Result(title, found == [expected], f"{found} (numpy: {expected})")


def _by_time(context, data):
    """Tests --checkpoint-every-seconds at 2 ranks, and resumes from a checkpoint that was written because of this
    option."""
    run = context.directory("time")
    fixed = (*SCALED, "--batch-size", 20, "--checkpoint-every", 0, "--summary-every", 0, "--log-every", 0)
    timed = ("--checkpoint-every-seconds", 1, "--keep-checkpoints", 0, "--max-steps", 1000000)
    options = ("--data", data / "train-*.tfrecord", "--train-dir", run, "--device", "cpu", *fixed, *timed)
    process = context.start(context.command("mnist_train", *options, ranks=2))
    wait_for(process, lambda: len(checkpoints(run)) >= 2, "two checkpoints")
    programs.signal_process(rank_process(process, 1), signal.SIGUSR1)
    code = context.finish(process, TIMEOUT).code
    first, *_, last = steps = sorted(int(path.stem.split("-")[1]) for path in checkpoints(run))
    yield Result("checkpoint: one per second", code == 75 and len(steps) >= 3, f"of {steps}, exit code {code}")
    again = context.directory("time")
    again.mkdir()
    shutil.copy(checkpoint(run, first), again)
    context.train(*fixed, "--max-steps", last, data=data / "train-*.tfrecord", train_dir=again, ranks=2)
    difference = same_bits(checkpoint(run, last), checkpoint(again, last))
    yield Result("checkpoint: resumed from a checkpoint saved by time", not difference, difference or "bit for bit equal")


def _best(context, data):
    """Tests best.ckpt.h5 and --keep-every."""
    run = context.directory("best")
    context.train(
        *SCALED[:2], "--learning-rate", "0.3", "--max-steps", 50, "--eval-data", data / "test-*.tfrecord", "--eval-every", 3,
        "--checkpoint-every", 5, "--keep-checkpoints", 1, "--keep-every", 20, data=data / "train-*.tfrecord",
        train_dir=run, ranks=2,
    )  # fmt: skip
    names = sorted(path.name for path in run.glob("*.h5"))
    expected = ["best.ckpt.h5", *(f"model.ckpt-{step}.h5" for step in (20, 40, 50))]
    yield Result("checkpoint: the best, the newest and every 20th", names == expected, ", ".join(names))
    found = [(line["eval_correct"], -line["step"]) for line in programs.metrics(run) if "eval_correct" in line]
    right, step = max(found)
    done = context.run("mnist_eval", "--data", data / "test-*.tfrecord", "--checkpoint", run / "best.ckpt.h5")
    with h5py.File(run / "best.ckpt.h5", "r") as file:
        good = file.attrs["global_step"] == -step and f"({right}/103)" in done.output
    yield Result("checkpoint: the best is that of the highest accuracy", good, f"step {-step}, {done.output.strip()}")


if __name__ == "__main__":
    programs.main(check)
