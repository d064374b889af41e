"""Tests bad CIFAR-10 input: damaged records and wrong image formats in cifar10_train, and damaged sources in
tfrecord_convert.

Every training case runs without mpirun and at 2 ranks. At 2 ranks, the quick form runs only one case of each kind.
"""

import numpy as np

import bad_input
import cifar
import programs
from bad_input import BAD_RECORD, CIFAR10, DATA, NO_INPUT, USAGE
from tfrecords import example, frame, parse_example, read_records


def check(context):
    """bad CIFAR-10 input"""
    (good,) = context.small_cifar10_set(4).glob("train-*.tfrecord")
    records = read_records(good)
    folder = context.directory("bad")
    folder.mkdir()
    for ranks in (0, 2):
        for title, content, names in bad_input.cases(context, ranks, _files(records)):
            path = folder / f"{title.replace(' ', '_')}.tfrecord"
            path.write_bytes(content)
            yield bad_input.train(context, CIFAR10, title, ranks, DATA, [path.name, *names], data=path)
        for title, code, names, options in bad_input.cases(context, ranks, ((case[1], case) for case in _options())):
            yield bad_input.train(context, CIFAR10, title, ranks, code, names, *options, data=good)
    yield from _conversion(context)


def _files(records):
    """Yields (kind, (title, content, words that the line must contain in addition to the file name))."""
    for kind, (title, content) in bad_input.damaged_files(records, CIFAR10):
        yield kind, (f"CIFAR-10 {title}", content, [])
    for title, size, found in (
        ("24x24 image", 1728, "24x24x3"),
        ("grey image", 1024, "grey 32x32"),
        ("float32 image", 12288, "float32"),
        ("MNIST image", 784, "grey 28x28"),
    ):
        content = bad_input.with_record(records, example({"image": bytes(size), "label": [3]}))
        yield "form", (title, content, [f"record {BAD_RECORD} ", f"{size} bytes, not 3072", found])
    samples = [parse_example(data, ("image", "label")) for data in records]
    planes = [np.frombuffer(sample["image"], np.uint8).reshape(3, 32, 32) for sample in samples]
    shuffled = [
        example({"image": image.transpose(1, 2, 0).tobytes(), "label": sample["label"]})
        for image, sample in zip(planes, samples)
    ]
    yield "order of bytes", ("HWC images", b"".join(map(frame, shuffled)), ["HWC", "CHW"])


def _options():
    """Yields (title, exit code, words that the error line must contain, options)."""
    yield "distort perhaps", USAGE, ["distort", "perhaps"], ["--distort=perhaps"]
    yield "a missing feature", DATA, ["'picture'", "'image'"], ["--image-key", "picture"]
    yield "a label of another type", DATA, ["'image'"], ["--label-key", "image"]


def _conversion(context):
    def convert(title, code, names, source):
        return bad_input.convert(context, "cifar10", f"CIFAR-10: {title}", code, names, source)

    yield convert("a missing folder", NO_INPUT, ["absent"], context.work / "absent")
    batches = cifar.read_batches(cifar.SAMPLE)
    damages = (
        ("a truncated file", "data_batch_2.bin", lambda content: content[:5000]),
        ("a label above 9", "test_batch.bin", lambda content: b"\x0a" + content[1:]),
        ("a missing file", "data_batch_5.bin", None),
    )
    for title, damaged, change in damages:
        source = context.directory("batches")
        source.mkdir()
        for name, records in batches.items():
            if name != damaged:
                (source / name).write_bytes(records.tobytes())
            elif change:
                (source / name).write_bytes(change(records.tobytes()))
        yield convert(title, DATA if change else NO_INPUT, [damaged], source)
    archive = cifar.SAMPLE.read_bytes()
    for title, name, content in (
        ("a truncated archive", "cut.tar.gz", archive[: len(archive) // 2]),
        ("an xz archive", "cifar.tar.xz", b"\xfd7zXZ\x00" + bytes(100)),
        ("a text file", "readme.txt", b"CIFAR-10\n" * 100),
    ):
        path = context.work / name
        path.write_bytes(content)
        yield convert(title, DATA, [name], path)


if __name__ == "__main__":
    programs.main(check)
