"""One tf.data process of read_vs_tfdata.py: reads, checks and decodes MNIST records in tf.data's fastest way.

TFRecordDataset reads the records and checks both CRCs. tf.io.parse_example parses a whole batch, and decode_raw
converts its images to uint8. Prints one JSON object with records per second after a warm-up pass.
"""

import argparse
import glob
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True, help="pattern of TFRecord files")
parser.add_argument("--cores", type=int, default=1)
parser.add_argument("--batch", type=int, default=1000)
parser.add_argument("--readers", type=int, default=0, help="num_parallel_reads; 0: one file after the other")
parser.add_argument("--parallel-map", action="store_true")
parser.add_argument("--seconds", type=float, default=4.0)
options = parser.parse_args()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: E402 (the import reads the environment and the affinity)

tf.config.threading.set_intra_op_parallelism_threads(options.cores)
tf.config.threading.set_inter_op_parallelism_threads(options.cores)
FEATURES = {"image_raw": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(records):
    features = tf.io.parse_example(records, FEATURES)
    return tf.io.decode_raw(features["image_raw"], tf.uint8, fixed_length=784), features["label"]


files = sorted(glob.glob(options.data))
dataset = tf.data.TFRecordDataset(
    files, buffer_size=8 << 20, num_parallel_reads=min(options.readers, len(files)) or None
)
dataset = dataset.repeat().batch(options.batch, drop_remainder=True)
dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE if options.parallel_map else None)
if options.parallel_map:
    dataset = dataset.prefetch(tf.data.AUTOTUNE)
pipeline = tf.data.Options()
pipeline.deterministic = False
pipeline.threading.private_threadpool_size = options.cores
dataset = dataset.with_options(pipeline)

batches = iter(dataset)
for _ in range(100):
    next(batches)
count = 0
started = time.perf_counter()
while (seconds := time.perf_counter() - started) < options.seconds:
    for _ in range(10):
        next(batches)
    count += 10 * options.batch
print(json.dumps({"records_per_second": count / seconds}))
