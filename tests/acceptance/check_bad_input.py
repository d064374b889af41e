"""Bad input and bad options: the documented exit code, one line that names the thing, no checkpoint, no hang.

Every case runs by itself and at 2 ranks under mpirun.
"""

import shutil
import struct

import numpy as np

import programs
from programs import SCALED, Result, checkpoint, checkpoints, load
from tfrecords import example, frame, read_records

USAGE, DATA, NO_INPUT, NO_DEVICE, FAILED, IO = 64, 65, 66, 69, 70, 74
BAD_RECORD = 7  # the record that each damaged file has damage in
TIMEOUT = 60


def check(context):
    """bad input"""
    data = context.small_set(200)
    (good,) = sorted(data.glob("train-*.tfrecord"))[:1]
    folder = context.directory("bad")
    folder.mkdir()
    for ranks in (0, 2):
        for title, content in _damaged_files(read_records(good)):
            path = folder / f"{title.replace(' ', '_')}.tfrecord"
            path.write_bytes(content)
            yield _train(context, title, ranks, DATA, [path.name], data=path)
        for title, code, names, options in _options(folder):
            yield _train(context, title, ranks, code, names, *options, data=good)
        yield _train(context, "missing file", ranks, NO_INPUT, ["absent.tfrecord"], data=folder / "absent.tfrecord")
        yield _train(context, "pattern without a match", ranks, NO_INPUT, ["absent-"], data=folder / "absent-*")
        yield _diverging(context, ranks, good)
        yield from _evaluation(context, ranks, data)
    yield _ranks_disagree(context, good)
    yield from _conversion(context)


def _damaged_files(records):
    """(title, content): a file of whole records with one of them damaged."""
    framed = [frame(data) for data in records[:20]]
    start = sum(len(data) for data in framed[:BAD_RECORD])
    image = bytes(784)

    def flipped(offset):
        content = bytearray(b"".join(framed))
        content[start + offset] ^= 1
        return bytes(content)

    def with_record(data):
        return b"".join([*framed[:BAD_RECORD], frame(data), *framed[BAD_RECORD + 1 :]])

    huge = struct.pack("<Q", 1 << 62)
    whole = b"".join(framed)
    yield "length CRC", flipped(8)
    yield "data CRC", flipped(12 + len(framed[BAD_RECORD]) // 2)
    yield "cut file", whole[: start + len(framed[BAD_RECORD]) // 2]
    yield "cut header", whole[: start + 5]
    yield "length 2^62", whole[:start] + huge + struct.pack("<I", _masked(huge)) + whole[start:]
    yield "text file", b"label,pixel0,pixel1\n5,0,0\n" * 40
    yield "empty file", b""
    yield "bad protobuf", with_record(b"\x0a\xff\xff\xff\xff\x7f" + image)
    yield "missing key", with_record(example({"label": [3]}))
    yield "700-byte image", with_record(example({"image_raw": image[:700], "label": [3]}))
    yield "label 10", with_record(example({"image_raw": image, "label": [10]}))
    yield "label -1", with_record(example({"image_raw": image, "label": [-1]}))


def _masked(data):
    return struct.unpack("<I", frame(data)[12 + len(data) :])[0]


def _options(folder):
    """(title, exit code, what the line must name, options)"""
    yield "unknown option", USAGE, ["no-such-option"], ["--no-such-option", "3"]
    yield "batch size 0", USAGE, ["batch-size", "0"], ["--batch-size", "0"]
    yield "batch size -4", USAGE, ["batch-size", "-4"], ["--batch-size", "-4"]
    yield "batch size ten", USAGE, ["batch-size", "ten"], ["--batch-size", "ten"]
    yield "learning rate nan", USAGE, ["learning-rate", "nan"], ["--learning-rate", "nan"]
    yield "max steps -1", USAGE, ["max-steps", "-1"], ["--max-steps", "-1"]
    yield "resume perhaps", USAGE, ["resume", "perhaps"], ["--resume", "perhaps"]
    recipe = folder / "wrong.cfg"
    recipe.write_text("batch-size = 50\nbatch-sise = 60\n")
    yield "unknown option in a recipe", USAGE, ["batch-sise"], ["--config", recipe]
    yield "missing recipe", NO_INPUT, ["absent.cfg"], ["--config", folder / "absent.cfg"]
    yield "missing initial checkpoint", NO_INPUT, ["absent.h5"], ["--init-from", folder / "absent.h5"]
    text = folder / "text.h5"
    text.write_text("not a checkpoint\n" * 100)
    yield "damaged initial checkpoint", DATA, ["text.h5"], ["--init-from", text]
    if not shutil.which("nvidia-smi"):
        yield "device cuda without a GPU", NO_DEVICE, ["cuda"], ["--device", "cuda"]


def _train(context, title, ranks, code, names, *options, data):
    train_dir = context.directory("bad-run")
    given = {"--device": "cpu", "--max-steps": 5}
    defaults = [word for option, value in given.items() if option not in options for word in (option, value)]
    done = context.run(
        "mnist_train", "--data", data, "--train-dir", train_dir, *defaults, *options,
        ranks=ranks, expect=None, timeout=TIMEOUT,
    )  # fmt: skip
    left = [path.name for path in checkpoints(train_dir)]
    return _verdict(title, ranks, done, code, names, f"left {left}" if left else "")


def _verdict(title, ranks, done, code, names, wrong=""):
    lines = done.lines
    missing = [name for name in names if not any(name in line for line in lines)]
    if done.code != code:
        wrong = f"expected exit code {code}; {done.explain()}"
    elif len(lines) != 1:
        wrong = f"{len(lines)} lines on stderr: {' | '.join(lines[:4])}"
    elif missing:
        wrong = f"the line names no {missing}: {lines[0]}"
    where = f"{ranks} ranks" if ranks else "by itself"
    return Result(f"bad input: {title}, {where}", not wrong, wrong or f"{code}: {lines[0]}")


def _diverging(context, ranks, data):
    train_dir = context.directory("diverging")
    done = context.train(
        "--learning-rate", "1000", "--max-steps", 200, "--checkpoint-every", 1, data=data, train_dir=train_dir,
        ranks=ranks, expect=None, timeout=TIMEOUT,
    )  # fmt: skip
    bad = [
        path.name
        for path in checkpoints(train_dir)
        if not all(np.isfinite(array).all() for array in load(path).values())
    ]
    return _verdict("diverging run", ranks, done, FAILED, ["diverged"], f"not finite: {bad}" if bad else "")


def _evaluation(context, ranks, data):
    """mnist_eval on a checkpoint that is missing, or has one byte flipped."""
    train_dir = context.directory("eval")
    context.train(*SCALED, "--max-steps", 2, data=data / "train-*.tfrecord", train_dir=train_dir)
    path = checkpoint(train_dir, 2)
    test = data / "test-*.tfrecord"

    def evaluate(target):
        return context.run(
            "mnist_eval", "--data", test, "--checkpoint", target, ranks=ranks, expect=None, timeout=TIMEOUT
        )

    yield _verdict("evaluate a missing checkpoint", ranks, evaluate(train_dir / "x.h5"), NO_INPUT, ["x.h5"])
    content = path.read_bytes()
    positions = np.random.default_rng(ranks).integers(0, len(content), 3 if context.quick else 20)
    silent = []
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(position % 8)
        path.write_bytes(damaged)
        done = evaluate(path)
        if done.code != DATA or len(done.lines) != 1 or path.name not in done.lines[0]:
            silent.append(f"byte {position}: {done.explain()}")
    yield Result(
        f"bad input: {len(positions)} single flipped bits in a checkpoint, {ranks} ranks",
        not silent,
        "; ".join(silent) or "each refused with 65",
    )


def _ranks_disagree(context, data):
    first, second = context.directory("disagree"), "--learning-rate"
    each = ["mnist_train", "--data", data, "--train-dir", first, "--max-steps", 5, second]
    one, two = (list(map(str, [context.binaries / each[0], *each[1:], rate])) for rate in ("0.001", "0.002"))
    launcher = context.command("", ranks=1)[:-1]
    done = context.run_command([*launcher, *one, ":", "-np", "1", *two], TIMEOUT)
    left = [path.name for path in checkpoints(first)]
    return _verdict("ranks with different options", 2, done, USAGE, ["learning-rate"], f"left {left}" if left else "")


def _conversion(context):
    def convert(title, code, names, source):
        target = context.directory("converted")
        done = context.run("tfrecord_convert", "mnist", "--input", source, "--output", target, expect=None)
        left = list(target.glob("*.tfrecord")) if target.exists() else []
        return _verdict(f"convert {title}", 0, done, code, names, f"left {left}" if left else "")

    yield convert("a missing directory", NO_INPUT, ["absent"], context.work / "absent")
    source = context.directory("idx")
    source.mkdir()
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ):
        (source / name).write_bytes(b"P5 28 28 255\n" + bytes(2000))
    yield convert("what is no IDX file", DATA, ["idx"], source)


if __name__ == "__main__":
    programs.main(check)
