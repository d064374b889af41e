"""Reads a checkpoint's arrays with h5py, or with h5dump (hdf5-tools, also in bundles) if Python has no h5py."""

import pathlib
import re
import subprocess
import tempfile

import numpy as np

try:
    import h5py
except ImportError:
    h5py = None

_DATASET = re.compile(r"^ dataset\s+/(\S.*?)\s*$", re.MULTILINE)
_SHAPE = re.compile(r"DATASPACE\s+SIMPLE \{ \( ([\d, ]+) \)")


def load(path):
    """Returns {'variables/layer1/weights': array, ...} with every array of the file."""
    return _by_h5py(path) if h5py else by_h5dump(path)


def _by_h5py(path):
    arrays = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: arrays.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
    return arrays


def by_h5dump(path):
    """Reads all float32 arrays that have at least one dimension, by h5dump. Trainings write only such arrays."""
    return {name: _dump(path, name) for name in _DATASET.findall(_h5dump("-n", path))}


def _dump(path, name):
    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(folder) / "raw"
        header = _h5dump("-d", f"/{name}", "-b", "LE", "-o", raw, path)
        shape = [int(size) for size in _SHAPE.search(header)[1].split(",")]
        return np.frombuffer(raw.read_bytes(), "<f4").reshape(shape)


def _h5dump(*arguments):
    done = subprocess.run(["h5dump", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"h5dump {' '.join(map(str, arguments))}: {done.stderr.strip()[-200:]}")
    return done.stdout
