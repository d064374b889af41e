"""Tests limits of writers and readers. If a training would write a file that no program could read, the program refuses
before it trains. A program refuses a forged or endless file with one error line, and needs little memory and time for
this."""

import json
import os
import re
import struct
import time

import numpy as np
from cases import SMALL, judge, results, trained

import programs
from bad_input import DATA, USAGE
from png import png
from processes import TIMEOUT, changes, content
from programs import Result, checkpoint, checkpoints, losses
from tfrecords import crc32c

MEMORY = 4 << 30  # bytes of address space for programs that must need little memory
PICTURES = ("--model", "resnet9", "--image-size", 16, "--batch-size", 2, "--distort=false", "--threads", 1)


def check(context):
    """limits"""
    cases = (
        _long_class_names, _endless_steps, _forged_position, _forged_image_size, _endless_log, _endless_option,
    )  # fmt: skip
    yield from results(context, cases)


def _records(context):
    """Makes records of two classes with one picture each. Returns their directory, and one of the pictures."""
    source, target = context.directory("pictures"), context.directory("records")
    for level, name in enumerate(("a", "b")):
        (source / name).mkdir(parents=True)
        (source / name / "0.png").write_bytes(png(np.full((16, 16, 3), 50 * level, np.uint8)))
    context.run("tfrecord_convert", "images", "--input", source, "--output", target)
    return target, source / "a/0.png"


def _with_image_header(path, image):
    """Writes a checkpoint with the HDF5 image `image` and a header that matches it."""
    header = bytearray(path.read_bytes()[:512])
    header[12:24] = struct.pack("<IQ", crc32c(image), len(image))
    header[508:] = struct.pack("<I", crc32c(header[:508]))
    path.write_bytes(bytes(header) + image)


def _limited(command):
    return ["prlimit", f"--as={MEMORY}", *command]


def _long_class_names(context, data):
    """options too long for a checkpoint"""
    records, _ = _records(context)
    path = records / "records.json"
    info = json.loads(path.read_text())
    for count, code in ((17_500, USAGE), (16_500, 0)):
        path.write_text(json.dumps(info | {"classes": [f"{i:0996d}" for i in range(count)]}))
        run = context.directory("faults")
        train = lambda steps: context.run(
            "image_train", "--data", records / "train-*", "--train-dir", run, *PICTURES, "--max-steps", steps,
            expect=None, timeout=TIMEOUT,
        )  # fmt: skip
        done = train(1)
        if code:
            wrong = "" if not checkpoints(run) and not (run / "metrics.jsonl").exists() else "it trained"
            yield judge("options too long for a checkpoint", done, code, ["attribute options has", "16777216"], wrong)
            continue
        done = done if done.code else train(2)
        wrong = "" if done.code == 0 and "resuming from" in done.output else done.explain()
        yield Result("faults: options just short enough are read again", not wrong, wrong or "resumed")


def _endless_steps(context, data):
    """a position that a checkpoint cannot hold"""
    options = ("--data", data / "train-*", "--batch-size", 4096, "--max-steps", 1 << 53)
    done = context.run("mnist_train", *options, "--train-dir", context.directory("faults"), expect=None)
    yield judge("steps whose samples cannot be counted", done, USAGE, ["stream_position"])


def _forged_position(context, data):
    """a forged stream position"""
    run = trained(context, data, 20)
    path = checkpoint(run, 20)
    image = bytearray(path.read_bytes()[512:])
    name = image.index(b"stream_position\0")
    at = image.index(struct.pack("<Q", 20 * 2 * 20), name, name + 100)
    for value in ((1 << 64) - 1, (1 << 63) - 1):
        image[at : at + 8] = struct.pack("<Q", value)
        _with_image_header(path, bytes(image))
        for other in checkpoints(run):
            if other != path:
                other.unlink()
        before = content(run)
        command = context.command(
            "mnist_train", "--data", data / "train-*", "--train-dir", run, *SMALL, "--max-steps", 40
        )
        done = context.run_command(command, TIMEOUT)
        lines = " | ".join(done.lines)
        wrong = "" if done.code == DATA and "stream_position" in lines else done.explain()
        wrong = wrong or changes(run, before)
        yield Result(f"faults: a stream position of {value}", not wrong, wrong or lines)


def _forged_image_size(context, data):
    """a forged image size"""
    records, picture = _records(context)
    run = context.directory("faults")
    context.run("image_train", "--data", records / "train-*", "--train-dir", run, *PICTURES, "--max-steps", 1)
    path = checkpoint(run, 1)
    image = path.read_bytes()[512:]
    options = re.search(rb'"image_size":16(,.*?"train_dir":"[^"]*)[^"]{2}"', image)
    forged = b'"image_size":4096' + options[1] + b'"'
    _with_image_header(path, image[: options.start()] + forged + image[options.end() :])
    for program, *words in (
        ("image_eval", "--data", records / "train-*", "--checkpoint", path),
        ("checkpoint_tool", "export", "--onnx", context.directory("model"), path),
        ("carillon_predict", "--checkpoint", path, picture),
    ):
        done = context.run_command(_limited(context.command(program, *words)), TIMEOUT)
        yield judge(f"{program} of a forged image size", done, DATA, [path.name, "4096 x 4096"])


def _endless_log(context, data):
    """a sparse metrics.jsonl"""
    run = trained(context, data, 20, "--log-every", 5)
    log = run / "metrics.jsonl"
    os.truncate(log, 6 << 30)
    command = context.command(
        "mnist_train", "--data", data / "train-*", "--train-dir", run, *SMALL, "--max-steps", 40, "--log-every", 5
    )
    done = context.run_command(_limited(command), TIMEOUT)
    wrong = "" if done.code == 0 else done.explain()
    wrong = wrong or ("" if list(losses(run)) == list(range(0, 40, 5)) else f"steps {list(losses(run))}")
    yield Result("faults: resuming with a metrics.jsonl of 6 GiB", not wrong, wrong or "cut to its lines")


def _endless_option(context, data):
    """an endless name of an option"""
    file = context.directory("config")
    file.write_text("x" * 900_000 + " = 1\n")
    began = time.monotonic()
    done = context.run("mnist_train", "--config", file, expect=None)
    seconds = time.monotonic() - began
    wrong = "" if seconds < 5 else f"{seconds:.1f} s"
    yield judge("an unknown option of 900 kB", done, USAGE, ["unknown option", "[899"], wrong)


if __name__ == "__main__":
    programs.main(check)
