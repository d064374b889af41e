"""A checkpoint as other programs see it: h5py and h5dump open it, names, shapes and attributes are as documented."""

import json
import re
import shutil
import subprocess

import h5py
import numpy as np

import programs
from programs import SCALED, Result, checkpoint

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


def _contents(path):
    wrong = []
    with h5py.File(path, "r") as file:
        for group in ("variables", "moving_averages"):
            for name, shape in SHAPES.items():
                item = file[f"{group}/{name}"]
                if item.shape != shape or item.dtype != np.float32:
                    wrong.append(f"{group}/{name} is {item.dtype}{item.shape}")
        attributes = dict(file.attrs)
    for name, expected in (("global_step", 20), ("seed", None), ("format_version", 1), ("model", "mnist")):
        value = attributes.get(name)
        value = value.decode() if isinstance(value, bytes) else value
        if value is None or (expected is not None and value != expected):
            wrong.append(f"attribute {name} is {value!r}")
    if not any(_is_options(value) for value in attributes.values()):
        wrong.append("no attribute holds the options as JSON")
    yield Result("checkpoint: names, shapes, attributes", not wrong, "; ".join(wrong) or ", ".join(sorted(attributes)))


def _is_options(value):
    try:
        options = json.loads(value)
    except (TypeError, ValueError):
        return False
    return isinstance(options, dict) and any("batch" in key for key in options)


def _evaluation(context, data, path):
    """mnist_eval against numpy, at 1, 2 and 3 ranks: 103 records divide by none of them."""
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


if __name__ == "__main__":
    programs.main(check)
