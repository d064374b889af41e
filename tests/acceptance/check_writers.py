"""Trainings on records as other programs write them end with the same bits as trainings on Carillon's records.

Such records have another order of features, another content of `pixels`, unknown features or unpacked integers, or are
compressed with GZIP.
"""

import programs
from programs import SCALED, Result, checkpoint, same_bits
from tfrecords import example, parse_example, read_records, write_records

STEPS = 10


def check(context):
    """records of other writers"""
    source = context.small_set(300)
    keys = ("image_raw", "pixels", "label")
    samples = [
        parse_example(data, keys) for path in sorted(source.glob("train-*.tfrecord")) for data in read_records(path)
    ]

    def train(pattern):
        train_dir = context.directory("writers")
        context.train(*SCALED, "--batch-size", 50, "--max-steps", STEPS, data=pattern, train_dir=train_dir)
        return checkpoint(train_dir, STEPS)

    ours = train(source / "train-*.tfrecord")
    for title, records, compress in _variants(samples):
        folder = context.directory("records")
        folder.mkdir()
        half = len(records) // 2
        write_records(folder / "a.tfrecord", records[:half], compress)
        write_records(folder / "b.tfrecord", records[half:], compress)
        difference = same_bits(ours, train(folder / "*.tfrecord"))
        yield Result(f"writers: {title}", not difference, difference or "identical weights")
    if not context.quick:
        yield from _tensorflow(context, samples, ours, train)


def _variants(samples):
    def of(order, samples=samples, **keywords):
        return [example({key: sample[key] for key in order}, **keywords) for sample in samples]

    values = [sample | {"pixels": list(sample["image_raw"])} for sample in samples]

    yield "label, pixels, image_raw", of(("label", "pixels", "image_raw")), False
    yield "without pixels", of(("image_raw", "label")), False
    yield "the value of every pixel", of(("pixels", "label", "image_raw"), values), False
    yield "unpacked integers", of(("pixels", "label", "image_raw"), values, packed=False), False
    extra = {"height": [28], "mean": [0.5, 1.5], "name": b"\x00\xff", "zeros": []}
    yield "unknown features", [example(extra | sample | {"zz": [-1]}) for sample in samples], False
    yield "GZIP", of(("image_raw", "pixels", "label")), True


def _tensorflow(context, samples, ours, train):
    try:
        import tensorflow as tf
    except ImportError:
        yield Result("writers: TensorFlow", False, "this Python has no tensorflow")
        return
    for compression in ("", "GZIP"):
        folder = context.directory("tensorflow")
        folder.mkdir()
        with tf.io.TFRecordWriter(str(folder / "a.tfrecord"), options=compression) as writer:
            for sample in samples:
                features = {
                    "image_raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[sample["image_raw"]])),
                    "pixels": tf.train.Feature(int64_list=tf.train.Int64List(value=sample["pixels"])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=sample["label"])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        difference = same_bits(ours, train(folder / "a.tfrecord"))
        title = f"writers: TensorFlow {tf.__version__} {compression}".rstrip()
        yield Result(title, not difference, difference or "identical weights")


if __name__ == "__main__":
    programs.main(check)
