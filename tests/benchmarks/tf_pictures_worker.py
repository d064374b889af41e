"""One tf.data process of pictures_vs_others.py. Prints images per second."""

import argparse
import time

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--records", required=True)
parser.add_argument("--fast", action="store_true")
parser.add_argument("--seconds", type=float, default=8.0)
options = parser.parse_args()
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
DECODING = {"fancy_upscaling": False, "dct_method": "INTEGER_FAST"} if options.fast else {}


def parse(record):
    keys = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}
    features = tf.io.parse_single_example(record, keys)
    file = features["image/encoded"]
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(file), tf.zeros([0, 0, 4], tf.float32), min_object_covered=0.1,
        aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1.0), use_image_if_no_bounding_boxes=True)  # fmt: skip
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.decode_and_crop_jpeg(file, window, channels=3, **DECODING)
    image = tf.compat.v1.image.resize_bilinear([image], [224, 224])[0]
    return tf.cast(tf.image.random_flip_left_right(image), tf.uint8), features["image/class/label"]


dataset = tf.data.TFRecordDataset(options.records).cache().shuffle(1000).repeat()
dataset = dataset.map(parse, num_parallel_calls=1).batch(64, drop_remainder=True).prefetch(1)
pipeline = tf.data.Options()
pipeline.threading.private_threadpool_size = 1
batches = iter(dataset.with_options(pipeline))
for _ in range(20):  # warm-up: fills the cache
    next(batches)
count, started = 0, time.perf_counter()
while (seconds := time.perf_counter() - started) < options.seconds:
    next(batches)
    count += 64
print(count / seconds)
