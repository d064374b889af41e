#!/usr/bin/env python3
"""Makes the CIFAR-10 samples of this folder: the first 2 images of each file, packed by Python and by TensorFlow.

    python3 make_cifar_samples.py CIFAR_DIR        (the six .bin files; made with TensorFlow 2.21)

cifar10.tar.gz     the binary version, cut: folder cifar-10-batches-bin, files not in order, other files between them
cifar10.tfrecord   the 10 training records as tf.train.Example of image and label by tf.io.TFRecordWriter
"""

import io
import pathlib
import sys
import tarfile

import tensorflow as tf

HERE = pathlib.Path(__file__).parent
RECORD_BYTES = 3073
COUNT = 2
TRAIN = [f"data_batch_{i}.bin" for i in range(1, 6)]


def write_archive(batches):
    files = {"batches.meta.txt": b"airplane\n", "readme.html": b"<html></html>\n", **batches}
    with tarfile.open(HERE / "cifar10.tar.gz", "w:gz", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(files, reverse=True):
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(files[name])
            archive.addfile(member, io.BytesIO(files[name]))


def write_records(batches):
    with tf.io.TFRecordWriter(str(HERE / "cifar10.tfrecord")) as writer:
        for record in (
            batches[name][i * RECORD_BYTES : (i + 1) * RECORD_BYTES] for name in TRAIN for i in range(COUNT)
        ):
            features = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[record[1:]])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[record[0]])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[2].strip())
    source = pathlib.Path(sys.argv[1])
    batches = {name: (source / name).read_bytes()[: COUNT * RECORD_BYTES] for name in [*TRAIN, "test_batch.bin"]}
    write_archive(batches)
    write_records(batches)


main()
