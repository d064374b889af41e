#!/usr/bin/python3
"""Runs an ONNX model of Carillon in onnxruntime.

  onnx_run.py MODEL IMAGES.npz OUTPUTS.npz

IMAGES.npz contains the array "image". The script writes the model's outputs to OUTPUTS.npz, under their names.
"""

import os
import sys

import numpy as np

# jobs/install_deps.sh --tests installs onnxruntime into these folders.
for share in ("/usr/local/share", os.path.expanduser("~/.local/share")):
    sys.path.append(os.path.join(share, "carillon-tests", "onnxruntime"))

import onnxruntime  # noqa: E402


def main(model, images, outputs):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    values = session.run(names, {"image": np.load(images)["image"].astype(np.float32)})
    np.savez(outputs, **dict(zip(names, values)))


if __name__ == "__main__":
    main(*sys.argv[1:])
