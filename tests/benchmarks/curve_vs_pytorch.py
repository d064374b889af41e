"""Compares the accuracy after each of the first epochs of jobs/recipes/cifar10_resnet18.cfg with PyTorch's training.

  python tests/benchmarks/curve_vs_pytorch.py --bin build/bin --data FOLDER_OF_THE_BINARY_VERSION --epochs 5 --seeds 1 2

Both train the same network on batches of 128 with the same rates, distortions and initial distributions, but with
different random numbers. The curves should differ only as much as curves of different seeds. Runs of Carillon and
PyTorch alternate. Prints Markdown.
"""

import argparse
import importlib.metadata
import json
import pathlib
import sys
import tempfile

import measure
from cifar10_vs_pytorch import KEEP_MEMORY

HERE = pathlib.Path(__file__).resolve().parent
RECIPE = HERE.parents[1] / "jobs" / "recipes" / "cifar10_resnet18.cfg"
EPOCH = 391  # steps of one epoch in the recipe


def ours(options, records, seed, train_dir):
    """Trains with Carillon. Returns (list of the accuracy after each epoch, seconds of training)."""
    command = [
        options.bin / "cifar10_train", "--config", RECIPE, "--batch-size", 128, "--device", "cpu", "--seed", seed,
        "--max-steps", EPOCH * options.epochs, "--schedule-steps", 78125, "--checkpoint-every", 0,
        "--data", records / "train-*.tfrecord", "--eval-data", records / "test-*.tfrecord", "--train-dir", train_dir,
    ]  # fmt: skip
    output, _ = measure.run(command, timeout=36000)
    lines = map(json.loads, (train_dir / "metrics.jsonl").read_text().splitlines())
    precisions = [line["eval_precision"] for line in lines if "eval_precision" in line]
    seconds = next(float(line.split()[1]) for line in output.splitlines() if line.startswith("training "))
    return precisions, seconds


def theirs(options, seed):
    command = [
        sys.executable, HERE / "torch_curve_worker.py", "--data", options.data, "--network", "resnet18_cifar",
        "--optimizer", "fused", "--threads", options.threads, "--epochs", options.epochs, "--seed", seed,
    ]  # fmt: skip
    output, _ = measure.run(command, KEEP_MEMORY, timeout=36000)
    found = json.loads(output)
    return found["precisions"], found["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of CIFAR-10's six .bin files")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch")
    options = parser.parse_args()
    print("\n".join(measure.conditions(len(options.seeds), PyTorch=importlib.metadata.version("torch"))))
    print("\n| run | seed | " + " | ".join(f"epoch {i + 1}" for i in range(options.epochs)) + " | seconds of training |")
    print("|---" * (3 + options.epochs) + "|")
    with tempfile.TemporaryDirectory() as work:
        records = pathlib.Path(work) / "records"
        measure.run([options.bin / "tfrecord_convert", "cifar10", "--input", options.data, "--output", records])
        runs = {
            "Carillon": lambda seed: ours(options, records, seed, pathlib.Path(work) / f"run{seed}"),
            "PyTorch": lambda seed: theirs(options, seed),
        }
        for seed in options.seeds:
            for name, train in runs.items():
                precisions, seconds = train(seed)
                cells = (name, seed, *(f"{precision:.4f}" for precision in precisions), f"{seconds:,.0f}")
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
