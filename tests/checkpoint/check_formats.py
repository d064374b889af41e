#!/usr/bin/python3
"""Opens Carillon's files with the tools that users have: h5py, h5dump, json and, if it is installed, TensorBoard.

    check_formats.py WRITE_FORMAT_SAMPLES      the program write_format_samples of the build
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np


def check_checkpoint(path):
    with h5py.File(path, "r") as file:
        attributes = dict(file.attrs)
        assert attributes["format_version"] == 4, attributes
        assert attributes["model"] == "mnist", attributes
        assert attributes["global_step"] == 5000000000, attributes
        assert attributes["seed"] == 0xFEDCBA9876543210, attributes
        assert attributes["stream_position"] == 1400, attributes
        assert json.loads(attributes["options"]) == {"batch-size": 100, "data": "größe"}, attributes
        assert sorted(file) == ["moving_averages", "optimizer", "state", "variables"], list(file)
        weights = file["variables/layer1/weights"]
        assert weights.dtype == np.float32 and weights.shape == (784, 500), weights
        assert weights.fletcher32 and weights.chunks == (392, 500), weights.chunks
        assert (weights[...].ravel() == np.arange(784 * 500)).all()
        assert file["variables/layer1/biases"][...].tolist() == [1, -2]
        assert file["moving_averages/layer1/biases"][...].tolist() == [3, 4]
        assert file["optimizer/momentum/layer1/biases"][...].tolist() == [5, 6]
    dump = subprocess.run(["h5dump", "-d", "/variables/layer1/biases", path], capture_output=True, text=True)
    assert dump.returncode == 0 and "(0): 1, -2" in dump.stdout, dump


def check_metrics(path):
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["step"] for record in records] == list(range(8)), records
    assert [record["loss"] for record in records] == [0, 1, 2, 3, 4, 5, 6.5, 7.5], records


def check_events(directory):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        print("check_formats: TensorBoard is not installed; only event_writer_test checks event files")
        return
    events = EventAccumulator(str(directory)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [
        (0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6.5), (7, 7.5)], events.Scalars("loss")
    histogram = events.Histograms("layer1/weights")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num) == (-2, 5, 5), histogram
    assert abs(histogram.sum - 3.001) < 1e-6 and abs(histogram.sum_squares - 29.000001) < 1e-6, histogram
    assert sum(histogram.bucket) == 5, histogram
    nodes = {node.name: list(node.input) for node in events.Graph().node}
    assert nodes == {"images": [], "layer1": ["images"]}, nodes
    print("check_formats: TensorBoard reads scalars, histograms, graph and discards the later steps of a killed run")


def main():
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        subprocess.run([sys.argv[1], name], check=True)
        check_checkpoint(str(directory / "model.ckpt-5000000000.h5"))
        check_metrics(directory / "metrics.jsonl")
        check_events(directory)
    print(f"check_formats: passed with h5py {h5py.__version__}")


if __name__ == "__main__":
    main()
