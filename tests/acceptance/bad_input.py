"""Helpers of the checks of bad input: functions that make damaged files, and functions that judge programs that read
these files."""

import struct
from dataclasses import dataclass

from programs import TIMEOUT, Result, checkpoints
from tfrecords import crc32c, example, frame

USAGE, DATA, NO_INPUT, NO_DEVICE, FAILED, LOST, IO, STOPPED = 64, 65, 66, 69, 70, 71, 74, 75
BAD_RECORD = 7  # index of the damaged record in the file


@dataclass(frozen=True)
class Images:
    """A training program, the key of the images in its records, and the size of an image in bytes."""

    program: str
    key: str
    size: int


MNIST = Images("mnist_train", "image_raw", 784)
CIFAR10 = Images("cifar10_train", "image", 3072)


def with_record(records, data):
    """Returns the content of a file of the first 20 of `records`, with `data` in place of record number BAD_RECORD."""
    framed = [frame(record) for record in records[:20]]
    return b"".join([*framed[:BAD_RECORD], frame(data), *framed[BAD_RECORD + 1 :]])


def damaged_files(records, images):
    """Yields (kind, (title, content)). Each content is a file of complete records, one of which is damaged."""
    framed = [frame(data) for data in records[:20]]
    start = sum(len(data) for data in framed[:BAD_RECORD])
    image = bytes(images.size)

    def flipped(offset):
        content = bytearray(b"".join(framed))
        content[start + offset] ^= 1
        return bytes(content)

    def replaced(data):
        return with_record(records, data)

    huge = struct.pack("<Q", 1 << 62)
    whole = b"".join(framed)
    yield "framing", ("length CRC", flipped(8))
    yield "framing", ("data CRC", flipped(12 + len(framed[BAD_RECORD]) // 2))
    yield "framing", ("cut file", whole[: start + len(framed[BAD_RECORD]) // 2])
    yield "framing", ("cut header", whole[: start + 5])
    yield "framing", ("length 2^62", whole[:start] + huge + struct.pack("<I", _masked(huge)) + whole[start:])
    yield "framing", ("text file", b"label,pixel0,pixel1\n5,0,0\n" * 40)
    yield "no record", ("empty file", b"")
    yield "content", ("bad protobuf", replaced(b"\x0a\xff\xff\xff\xff\x7f" + image))
    yield "content", ("missing key", replaced(example({"label": [3]})))
    yield "content", ("700-byte image", replaced(example({images.key: image[:700], "label": [3]})))
    yield "label", ("label 10", replaced(example({images.key: image, "label": [10]})))
    yield "label", ("label -1", replaced(example({images.key: image, "label": [-1]})))


def forged_checkpoint(content, old, new):
    """Returns the content of a checkpoint in which `new`, of equal length, replaces the bytes `old`. The checksums are
    correct."""
    image = content[512:].replace(old, new)
    if len(old) != len(new) or image == content[512:]:
        raise ValueError(f"{old} is not in the checkpoint")
    header = content[:12] + struct.pack("<I", crc32c(image)) + content[16:508]
    return header + struct.pack("<I", crc32c(header)) + image


def _masked(data):
    return struct.unpack("<I", frame(data)[12 + len(data) :])[0]


def cases(context, ranks, kinds_and_cases):
    """Returns the cases to run. With several ranks, the quick form of the check runs only the first case of each kind,
    because each start of mpirun takes seconds."""
    seen = set()
    for kind, case in kinds_and_cases:
        if not (ranks and context.quick and kind in seen):
            seen.add(kind)
            yield case


def train(context, images, title, ranks, code, names, *options, data):
    train_dir = context.directory("bad-run")
    given = {"--device": "cpu", "--max-steps": 5}
    defaults = [word for option, value in given.items() if option not in options for word in (option, value)]
    done = context.run(
        images.program, "--data", data, "--train-dir", train_dir, *defaults, *options,
        ranks=ranks, expect=None, timeout=TIMEOUT,
    )  # fmt: skip
    left = [path.name for path in checkpoints(train_dir)]
    return verdict(title, ranks, done, code, names, f"left {left}" if left else "")


def verdict(title, ranks, done, code, names, wrong=""):
    wrong = done.complaint(code, names) or wrong
    where = f"{ranks} ranks" if ranks else "by itself"
    return Result(f"bad input: {title}, {where}", not wrong, wrong or f"{code}: {done.lines[0]}")


def convert(context, name, title, code, names, source):
    """Runs tfrecord_convert with a source that is not in the format `name`."""
    target = context.directory("converted")
    done = context.run("tfrecord_convert", name, "--input", source, "--output", target, expect=None)
    left = list(target.glob("*.tfrecord")) if target.exists() else []
    return verdict(f"convert {title}", 0, done, code, names, f"left {left}" if left else "")
