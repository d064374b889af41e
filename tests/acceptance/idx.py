"""Reads IDX files: MNIST and other data sets in its format."""

import gzip

import numpy as np


def read_idx(directory, split):
    """Returns (images [count, 784] uint8, labels [count] uint8). `split`: 'train' or 't10k', the beginning of the
    files' names. The files may be plain or gzip files."""

    def content(name):
        plain = directory / name
        return plain.read_bytes() if plain.exists() else gzip.decompress((directory / f"{name}.gz").read_bytes())

    images = np.frombuffer(content(f"{split}-images-idx3-ubyte"), np.uint8, offset=16).reshape(-1, 784)
    return images, np.frombuffer(content(f"{split}-labels-idx1-ubyte"), np.uint8, offset=8)
