"""Compares how fast read_benchmark and tf.data read and decode MNIST records from the page cache.

  python tests/benchmarks/read_vs_tfdata.py --bin build/bin --data DIRECTORY_OF_IDX_FILES

Both programs use one core; tf.data is also measured on two cores, because it can use several cores. The result is the
median over rounds. The ratio compares Carillon on one core with tf.data's best configuration on one core. Prints
Markdown. Needs an idle machine and a Python with tensorflow.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import re
import sys
import tempfile

import measure

HERE = pathlib.Path(__file__).resolve().parent
RATE = re.compile(r"^\s+(\S.*?)\s+(\d+) records/s\s+\(median (\d+)\)", re.MULTILINE)
DECODED = "verified, decoded"


def ours(program, records, what):
    output, peak = measure.run([program, records / "train-00000-of-00001.tfrecord"])
    rates = {name: float(median) for name, _, median in RATE.findall(output)}
    if what not in rates:
        sys.exit(f"{program}: no '{what}' in its output, only {sorted(rates)}")
    return rates[what], peak


def theirs(records, seconds, cores, *options):
    command = [sys.executable, HERE / "tfdata_worker.py", "--data", records / "train-*", "--seconds", seconds]
    output, peak = measure.run([*command, "--cores", cores, *options], os.environ | {"CUDA_VISIBLE_DEVICES": "-1"})
    return json.loads(output)["records_per_second"], peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--read-benchmark", type=pathlib.Path, help="default: read_benchmark in --bin")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="directory of the IDX files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of measurement per run of tf.data")
    options = parser.parse_args()
    program = options.read_benchmark or options.bin / "read_benchmark"
    with tempfile.TemporaryDirectory() as work:
        one, four = pathlib.Path(work) / "one", pathlib.Path(work) / "four"
        convert = [options.bin / "tfrecord_convert", "mnist", "--input", options.data]
        measure.run([*convert, "--output", one])
        measure.run([*convert, "--output", four, "--shards", 4])
        mine = {
            f"Carillon, 1 core: {what}": lambda what=what: ours(program, one, what)
            for what in (DECODED, "Dataset::open, cached")
        }
        others = {}
        for cores in (1, 2):
            for title, records, flags in (
                ("", one, ()),
                (", parallel map", one, ("--parallel-map",)),
                (", 4 files interleaved, parallel map", four, ("--parallel-map", "--readers", 4)),
            ):
                others[f"tf.data, {cores} core{'s' if cores > 1 else ''}{title}"] = (
                    lambda cores=cores, records=records, flags=flags: theirs(records, options.seconds, cores, *flags)
                )
        version = importlib.metadata.version("tensorflow")
        lines = [*measure.conditions(options.rounds, TensorFlow=version, Python=sys.version.split()[0]), ""]
        found = measure.interleaved(options.rounds, mine | others)
        on_one_core = [name for name in others if "1 core" in name]
        lines += measure.comparison(found, list(mine)[:1], on_one_core, "records")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
