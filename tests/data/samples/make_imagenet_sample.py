#!/usr/bin/env python3
"""Makes imagenet.tfrecord with TensorFlow: records like those of its ImageNet scripts, with the data set's known anomalies.

    python3 make_imagenet_sample.py        (made with TensorFlow 2.21)

Eight pictures of tests/data/pictures, with labels 1 to 4 of 1000 (1-based). All records say that the picture is a JPEG
in RGB, but one picture is in CMYK and one is a PNG file. The keys and types are those of tensorflow/models'
build_imagenet_data.py.
"""
import pathlib

import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("colour.jpg", "cmyk.jpg", "colour.png", "grey.jpg", "progressive.jpg", "full_chroma.jpg", "colour.jpg", "grey.jpg")


def integers(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def text(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() if isinstance(value, str) else value]))


with tf.io.TFRecordWriter(str(HERE / "imagenet.tfrecord")) as writer:
    for i, name in enumerate(NAMES):
        feature = {
            "image/height": integers(33), "image/width": integers(45), "image/colorspace": text("RGB"),
            "image/channels": integers(3), "image/class/label": integers(i % 4 + 1),
            "image/class/synset": text(f"n0144076{i % 4}"), "image/class/text": text("tench, Tinca tinca"),
            "image/object/bbox/xmin": floats(0.1), "image/object/bbox/xmax": floats(0.9),
            "image/object/bbox/ymin": floats(0.1), "image/object/bbox/ymax": floats(0.9),
            "image/object/bbox/label": integers(i % 4 + 1), "image/format": text("JPEG"),
            "image/filename": text(f"n0144076{i % 4}_{i}.JPEG"),
            "image/encoded": text((HERE.parent / "pictures" / name).read_bytes()),
        }  # fmt: skip
        writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
