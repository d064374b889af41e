#!/usr/bin/env python3
"""Makes the golden samples of this folder with TensorFlow: records of the first 20 MNIST test images, as programs other
than Carillon write them.

    python3 make_samples.py MNIST_DIR        (IDX files, .gz; made with TensorFlow 2.21)

expected.u8              20 x 784 pixels, then 20 labels: the content of each of the following files
tensorflow.tfrecord      tf.train.Example of image_raw, pixels and label by tf.io.TFRecordWriter
tensorflow_gzip.tfrecord the same records with TFRecordOptions("GZIP")
more_features.tfrecord also features of every other kind, an empty feature, and a key that is not ASCII
other_order.tfrecord map entries in all orders, encoded by hand unpacked.tfrecord int64 lists not packed, encoded by
hand
"""
import gzip
import itertools
import pathlib
import sys

import numpy as np
import tensorflow as tf

COUNT = 20


def read_idx(path, header_bytes):
    return np.frombuffer(gzip.open(path).read(), np.uint8, offset=header_bytes)


def bytes_feature(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def int64_feature(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def standard_features(image, label):
    return {"image_raw": bytes_feature(image.tobytes()), "pixels": int64_feature(image.tolist()),
            "label": int64_feature([int(label)])}


def serialise(features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def entry(key, feature):
    return field(1, field(1, key.encode()) + field(2, feature.SerializeToString()))


def unpacked_entry(key, values):
    values = b"".join(varint(1 << 3 | 0) + varint(int(v)) for v in values)
    return field(1, field(1, key.encode()) + field(2, field(3, values)))


def write(name, records, options=None):
    with tf.io.TFRecordWriter(str(pathlib.Path(__file__).parent / name), options) as writer:
        for record in records:
            writer.write(record)


def main():
    source = pathlib.Path(sys.argv[1])
    images = read_idx(source / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:COUNT]
    labels = read_idx(source / "t10k-labels-idx1-ubyte.gz", 8)[:COUNT]
    (pathlib.Path(__file__).parent / "expected.u8").write_bytes(images.tobytes() + labels.tobytes())

    samples = [standard_features(i, l) for i, l in zip(images, labels)]
    write("tensorflow.tfrecord", map(serialise, samples))
    write("tensorflow_gzip.tfrecord", map(serialise, samples), tf.io.TFRecordOptions("GZIP"))
    more = {"height": int64_feature([28]), "negative": int64_feature([-1, -2**63]),
            "weights": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, -2.0])),
            "names": bytes_feature(b"first", b"", b"third"), "nothing": tf.train.Feature(),
            "größe": int64_feature([])}
    write("more_features.tfrecord", (serialise({**more, **s}) for s in samples))
    orders = itertools.cycle(itertools.permutations(["image_raw", "pixels", "label"]))
    write("other_order.tfrecord",
          (field(1, b"".join(entry(key, s[key]) for key in order)) for s, order in zip(samples, orders)))
    write("unpacked.tfrecord",
          (field(1, unpacked_entry("label", [l]) + unpacked_entry("pixels", i) + entry("image_raw", s["image_raw"]))
           for i, l, s in zip(images, labels, samples)))


main()
