#!/usr/bin/env python3
"""Runs an ONNX model of Carillon in numpy and float64, as a second implementation of the operators.

  onnx_numpy.py MODEL IMAGES.npz OUTPUTS.npz [--onnxruntime]

IMAGES.npz contains "image"; OUTPUTS.npz gets the model's outputs by name. With --onnxruntime, onnx's checker checks the
model and onnxruntime runs it; Python must have both packages.
"""

import argparse
import math
import struct

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tfrecords import fields

FLOAT, INT64 = 1, 7


def _signed(value):
    return value - (1 << 64) if value >> 63 else value


def _varints(packed):
    values, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(_signed(value))
            value = shift = 0
    return values


def _all(message, number):
    return [value for field, value in fields(message) if field == number]


def _one(message, number, default=b""):
    return (_all(message, number) or [default])[0]


def _text(message, number):
    return bytes(_one(message, number)).decode()


def _extents(message, number):
    """The values of a repeated int64, packed or not."""
    found = []
    for value in _all(message, number):
        found += [_signed(value)] if isinstance(value, int) else _varints(value)
    return found


def _tensor(message):
    kind = {FLOAT: "<f4", INT64: "<i8"}[_one(message, 2, 0)]
    values = np.frombuffer(bytes(_one(message, 9)), kind).reshape(_extents(message, 1))
    return _text(message, 8), values.astype(np.float64) if kind == "<f4" else values


def _attribute(message):
    kind = _one(message, 20, 0)
    if kind == 1:
        return _text(message, 1), struct.unpack("<f", bytes(_one(message, 2, bytes(4))))[0]
    return _text(message, 1), _signed(_one(message, 3, 0)) if kind == 2 else _extents(message, 8)


class Model:
    def __init__(self, data):
        graph = _one(data, 7)
        self.ir_version = _one(data, 1, 0)
        self.operator_sets = [(_text(entry, 1), _one(entry, 2, 0)) for entry in _all(data, 8)]
        self.metadata = {_text(entry, 1): _text(entry, 2) for entry in _all(data, 14)}
        self.constants = dict(_tensor(tensor) for tensor in _all(graph, 5))
        self.inputs = [_text(value, 1) for value in _all(graph, 11)]
        self.outputs = [_text(value, 1) for value in _all(graph, 12)]
        self.nodes = [
            (
                _text(node, 4), [bytes(name).decode() for name in _all(node, 1)], _text(node, 2),
                dict(_attribute(attribute) for attribute in _all(node, 5)),
            )
            for node in _all(graph, 1)
        ]  # fmt: skip

    def run(self, image):
        values = dict(self.constants) | {self.inputs[0]: image.astype(np.float64)}
        for kind, inputs, output, attributes in self.nodes:
            values[output] = OPERATORS[kind](*(values[name] for name in inputs), **attributes)
        return {name: values[name] for name in self.outputs}


def _windows(x, kernel_shape, strides, pads, fill):
    """[n, c, p, q, i, j]"""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    return sliding_window_view(x, kernel_shape, (2, 3))[:, :, :: strides[0], :: strides[1]]


def conv(x, weights, bias=None, *, kernel_shape, strides, pads, group=1):
    windows = _windows(x, kernel_shape, strides, pads, 0.0)
    if group == 1:
        y = np.einsum("ncpqij,ocij->nopq", windows, weights, optimize=True)
    elif group == x.shape[1] and weights.shape[1] == 1:
        y = np.einsum("ncpqij,cij->ncpq", windows, weights[:, 0], optimize=True)
    else:
        raise ValueError(f"a convolution in {group} groups")
    return y if bias is None else y + bias[:, None, None]


def max_pool(x, *, kernel_shape, strides, pads):
    return _windows(x, kernel_shape, strides, pads, -np.inf).max((4, 5))


def average_pool(x, *, kernel_shape, strides, pads):
    return np.nanmean(_windows(x, kernel_shape, strides, pads, np.nan), (4, 5))


def lrn(x, *, size, alpha, beta, bias):
    squares = np.pad(x * x, ((0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)))
    return x / (bias + alpha / size * sliding_window_view(squares, size, 1).sum(-1)) ** beta


def batch_norm(x, scale, shift, mean, variance, *, epsilon):
    extents = (-1,) + (1,) * (x.ndim - 2)
    scale, shift, mean, variance = (value.reshape(extents) for value in (scale, shift, mean, variance))
    return scale * (x - mean) / np.sqrt(variance + epsilon) + shift


def layer_norm(x, scale, shift, *, axis, epsilon):
    axes = tuple(range(axis % x.ndim, x.ndim))
    return scale * (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon) + shift


def pad(x, pads):
    before, after = np.split(pads, 2)
    return np.pad(x, list(zip(before, after, strict=True)))


def slice_(x, begin, end, axes):
    cut = [slice(None)] * x.ndim
    for first, last, axis in zip(begin, end, axes, strict=True):
        cut[axis] = slice(first, last)
    return x[tuple(cut)]


def reshape(x, extents):
    """An extent of 0 keeps that of x."""
    return x.reshape([x.shape[axis] if extent == 0 else extent for axis, extent in enumerate(extents)])


def softmax(x, *, axis=-1):
    if axis not in (-1, x.ndim - 1):
        raise ValueError(f"a softmax over axis {axis}")
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


OPERATORS = {
    "Add": np.add,
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Conv": conv,
    "Div": np.divide,
    "Erf": np.vectorize(math.erf, otypes=[np.float64]),
    "Flatten": lambda x: x.reshape(len(x), -1),
    "Gather": lambda x, indices, axis=0: np.take(x, indices, axis),
    "Gemm": lambda x, weights, bias: x @ weights + bias,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "Identity": lambda x: x,
    "LRN": lrn,
    "LayerNormalization": layer_norm,
    "MatMul": np.matmul,
    "Max": np.maximum,
    "MaxPool": max_pool,
    "Mul": np.multiply,
    "ReduceMean": lambda x, axes: x.mean(tuple(axes), keepdims=True),
    "Pad": pad,
    "Relu": lambda x: np.maximum(x, 0.0),
    "Reshape": reshape,
    "Sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "Slice": slice_,
    "Softmax": softmax,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Transpose": lambda x, perm: x.transpose(perm),
}


def by_onnxruntime(path, image):
    import onnx
    import onnxruntime

    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"image": image.astype(np.float32)}), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("images")
    parser.add_argument("outputs")
    parser.add_argument("--onnxruntime", action="store_true")
    options = parser.parse_args()
    image = np.load(options.images)["image"]
    if options.onnxruntime:
        outputs = by_onnxruntime(options.model, image)
    else:
        with open(options.model, "rb") as file:
            outputs = Model(file.read()).run(image)
    np.savez(options.outputs, **{name: value.astype(np.float32) for name, value in outputs.items()})


if __name__ == "__main__":
    main()
