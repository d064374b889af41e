#!/usr/bin/env python3
"""Runs ONNX's own test cases of the operators that Carillon imports, and compares the results.

  tests/acceptance/check_onnx_operators.py --bin build/bin [--work DIR] [--markdown FILE] [OPERATOR...]

Needs onnx, numpy and Pillow. The package onnx has test cases for each operator: a graph of one node with inputs and
outputs. In Carillon, the first extent of values is the batch, and the input of a network is a picture. So the script
adds nodes before the case: pixel number i of picture i is white, and a product with a matrix converts picture i to row
i of the case's first input. Weights, scales, shapes and indices stay constants.
`image_train --model FILE.onnx --max-steps 0` imports the graph, and `image_eval --predictions` computes it.

A case is skipped if Carillon cannot express it: values that are not float32, no axis besides the batch, an output
without the batch, random numbers. For each case that is not skipped, the script prints a row: equal, differs, or
refused with the reason. Exits with 1 if a case that Carillon accepts differs.
"""

import argparse
import collections
import contextlib
import csv
import io
import pathlib
import shutil
import subprocess
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SIDE = 8  # pictures are SIDE x SIDE: at most 64 samples
# An op computes these operators (src/onnx/import_*.cpp).
OPERATORS = """Add AveragePool BatchNormalization Cast CastLike Clip Concat Conv Div Dropout Einsum Erf Exp Expand Flatten
Gather Gelu Gemm GlobalAveragePool GlobalMaxPool GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization
LayerNormalization LeakyRelu MatMul MaxPool Mul Neg Pad Pow Reciprocal ReduceL2 ReduceMax ReduceMean ReduceSum Relu Reshape Resize
ScatterND Sigmoid Slice Softmax Split Sqrt Squeeze Sub Tanh Tile Transpose Unsqueeze""".split()
# These inputs may be computed values. For all other operators, only input 0 may be a computed value.
VALUES = {name: (0, 1) for name in ("Add", "Sub", "Mul", "Div", "MatMul", "Einsum")} | {"Concat": range(9), "ScatterND": (0, 2)}


class Skipped(Exception):
    """The case cannot be converted to a graph with a batch."""


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return done.stdout


def all_cases():
    """Returns the cases of one node with data, by operator."""
    from onnx.backend.test.case.node import collect_testcases

    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        cases = collect_testcases(None)
    by_operator = collections.defaultdict(list)
    for case in cases:
        nodes = case.model.graph.node
        if len(nodes) == 1 and case.data_sets:
            by_operator[nodes[0].op_type].append(case)
    return by_operator


def arrays(case):
    """Returns the inputs and outputs of the case as numpy arrays."""
    inputs, outputs = case.data_sets[0]
    if not all(isinstance(array, np.ndarray) or np.isscalar(array) for array in [*inputs, *outputs]):
        raise Skipped("values that are no tensors")
    return [np.asarray(array) for array in inputs], [np.asarray(array) for array in outputs]


def with_pictures(case):
    """Returns the model with a picture as its input, the batch size, and the expected output [batch, numbers]."""
    inputs, outputs = arrays(case)
    node = onnx.NodeProto()
    node.CopyFrom(case.model.graph.node[0])
    x, y = inputs[0], outputs[0]
    if x.dtype != np.float32 or y.dtype != np.float32:
        raise Skipped("values that are not float32")
    if x.ndim < 2 or not 1 <= x.shape[0] <= SIDE * SIDE or x.size == 0:
        raise Skipped("no axis besides the batch")
    if node.op_type == "Dropout" and len(inputs) > 2 and bool(inputs[2]):
        raise Skipped("random numbers")
    batch = x.shape[0]
    if y.ndim < 2 or y.shape[0] != batch or y.size == 0:
        raise Skipped("an output without the batch")
    names = [name for name in node.input]
    given = dict(zip([name.name for name in case.model.graph.input], inputs))
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(array, name))
        return name

    # The pixels are -1 and 1.
    half, one = constant("own_half", np.float32(0.5)), constant("own_one", np.float32(1))
    nodes.append(helper.make_node("Slice", ["image", constant("own_first", np.array([0])), constant("own_last", np.array([1])),
                                            constant("own_axis", np.array([1]))], ["own_channel"]))
    nodes.append(helper.make_node("Flatten", ["own_channel"], ["own_pixels"]))
    nodes.append(helper.make_node("Add", ["own_pixels", one], ["own_shifted"]))
    nodes.append(helper.make_node("Mul", ["own_shifted", half], ["own_samples"]))
    for i, name in enumerate(names):
        if not name:
            continue
        array = given[name]
        is_value = i in VALUES.get(node.op_type, (0,)) and array.dtype == np.float32
        if i > 0 and (array.ndim != x.ndim or array.shape[0] != batch):
            is_value = False
        if not is_value:
            constant(name, array)
            continue
        matrix = np.zeros((SIDE * SIDE, array.size // batch), np.float32)
        matrix[:batch] = array.reshape(batch, -1)
        nodes.append(helper.make_node("MatMul", ["own_samples", constant(f"rows_{name}", matrix)], [f"flat_{name}"]))
        shape = constant(f"shape_{name}", np.array([-1, *array.shape[1:]], np.int64))
        nodes.append(helper.make_node("Reshape", [f"flat_{name}", shape], [name]))
    nodes.append(node)
    end = constant("own_end", np.array([-1, y.size // batch], np.int64))
    # Without another operator at the end, the case's layer would be the network's last layer, which gets new weights.
    nodes.append(helper.make_node("Neg", [node.output[0]], ["own_negative"]))
    nodes.append(helper.make_node("Reshape", ["own_negative", end], ["own_rows"]))
    nodes.append(helper.make_node("Neg", ["own_rows"], ["own_result"]))
    samples = batch if node.op_type == "Reshape" else "batch"  # the shapes of the cases contain the number of samples
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [samples, 3, SIDE, SIDE])
    output = helper.make_tensor_value_info("own_result", TensorProto.FLOAT, ["batch", y.size // batch])
    graph = helper.make_graph(nodes, "case", [image], [output], constants)
    version = max(imported.version for imported in case.model.opset_import if imported.domain == "")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", max(version, 9))]), batch, y.reshape(batch, -1)


def records(programs, work, batch, numbers):
    """Makes records of `batch` pictures with `numbers` targets each, in order. Returns the pattern of their files."""
    data = work / f"records-{batch}-{numbers}"
    if data.exists():
        return data / "train-*"
    folder = work / f"pictures-{batch}"
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(batch):
        pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
        pixels[i // SIDE, i % SIDE] = 255
        Image.fromarray(pixels).save(folder / f"{i}.png")
    lines = ["path," + ",".join(f"n{k}" for k in range(numbers))]
    lines += [f"{i}.png," + ",".join(str(i + 0.5 * (k % 2)) for k in range(numbers)) for i in range(batch)]
    (work / "targets.csv").write_text("\n".join(lines) + "\n")
    run(programs / "tfrecord_convert", "images", "--input", folder, "--targets", work / "targets.csv", "--task", "regression",
        "--output", data)  # fmt: skip
    (data / "records.json").unlink()  # in this case, the outputs are not scaled
    return data / "train-*"


def outputs_of(programs, work, path, batch, numbers):
    """Returns the outputs of the imported network [batch, numbers]."""
    data, train_dir, table = records(programs, work, batch, numbers), work / "run", work / "predictions.csv"
    shutil.rmtree(train_dir, ignore_errors=True)
    common = ["--data", data, "--device", "cpu"]
    run(programs / "image_train", *common, "--model", path, "--image-size", SIDE, "--task", "regression", "--classes", numbers,
        "--preprocessing", "inception", "--fit", "squash", "--global-batch", batch, "--precision", "fp32", "--train-dir", train_dir,
        "--max-steps", 0, "--fresh", "--summary-every", 0)  # fmt: skip
    run(programs / "image_eval", *common, "--checkpoint", train_dir, "--predictions", table)
    with open(table, newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["picture"].removesuffix(".png")))
    return np.array([[float(row[f"predicted {k}"]) for k in range(numbers)] for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/onnx-operators"))
    parser.add_argument("--markdown", type=pathlib.Path, help="file for the table")
    parser.add_argument("operators", nargs="*", help="names; default: all that are imported")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    options.work.mkdir(parents=True, exist_ok=True)
    programs = options.bin.resolve()
    rows, counts, cases = [], collections.Counter(), all_cases()
    for operator in options.operators or OPERATORS:
        for case in cases[operator]:
            try:
                model, batch, expected = with_pictures(case)
            except Skipped as reason:
                counts[f"skipped: {reason}"] += 1
                continue
            path = options.work / "case.onnx"
            onnx.save(model, path)
            try:
                found = outputs_of(programs, options.work, path, batch, expected.shape[1])
                error = np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-6)
                # Some cases state rounded outputs.
                is_equal = error < 1e-5 or np.allclose(found, expected, rtol=case.rtol, atol=case.atol)
                row = (operator, case.name, "equal" if is_equal else "differs", f"{error:.1e}")
            except RuntimeError as failure:
                row = (operator, case.name, "refused", str(failure).split("case.onnx: ")[-1][:160])
            counts[row[2]] += 1
            rows.append(row)
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, (24, 48, 8, 0))), flush=True)
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
    if options.markdown:
        lines = ["| operator | case | result | error or reason |", "|---|---|---|---|"]
        options.markdown.write_text("\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n")
    sys.exit(counts["differs"] > 0)


if __name__ == "__main__":
    main()
