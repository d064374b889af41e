"""Reads CIFAR-10's binary version: a folder with the six files, or an archive with a compression that Python supports."""

import pathlib
import tarfile

import numpy as np

TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = "test_batch.bin"
SAMPLE = pathlib.Path(__file__).resolve().parents[1] / "data/samples/cifar10.tar.gz"  # a sample with 2 images per file


def read_batches(path):
    """Returns {file name: array}. An array is [count, 3073] uint8: the label, then the planes R, G, B of 32 x 32
    pixels, row-major."""
    path = pathlib.Path(path)
    if path.is_dir():
        folder = path if (path / TEST).exists() else path / "cifar-10-batches-bin"
        content = {name: (folder / name).read_bytes() for name in (*TRAIN, TEST)}
    else:
        with tarfile.open(path) as archive:
            files = {pathlib.PurePath(member.name).name: member for member in archive if member.isfile()}
            content = {name: archive.extractfile(files[name]).read() for name in (*TRAIN, TEST)}
    return {name: np.frombuffer(bytes_, np.uint8).reshape(-1, 3073) for name, bytes_ in content.items()}


def read_cifar10(path, split):
    """Returns (images [count, 3, 32, 32] uint8, labels [count] uint8). `split`: 'train' or 'test'."""
    batches = read_batches(path)
    records = np.concatenate([batches[name] for name in (TRAIN if split == "train" else (TEST,))])
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
