"""Writes random images in the format and size of MNIST or of CIFAR-10's binary version, for tests of speed.

python tests/benchmarks/gpu_random_sets.py mnist|cifar10 DIRECTORY
"""

import argparse
import pathlib
import struct

import numpy as np


def write_mnist(folder, generator):
    for split, count in (("train", 60000), ("t10k", 10000)):
        images = generator.integers(0, 256, (count, 784), np.uint8)
        labels = generator.integers(0, 10, count, np.uint8)
        content = struct.pack(">4I", 0x803, count, 28, 28) + images.tobytes()
        (folder / f"{split}-images-idx3-ubyte").write_bytes(content)
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels.tobytes())


def write_cifar10(folder, generator):
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        records = generator.integers(0, 256, (10000, 3073), np.uint8)
        records[:, 0] %= 10
        (folder / name).write_bytes(records.tobytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=("mnist", "cifar10"))
    parser.add_argument("directory", type=pathlib.Path)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    write = {"mnist": write_mnist, "cifar10": write_cifar10}[options.set]
    write(options.directory, np.random.default_rng(1))
