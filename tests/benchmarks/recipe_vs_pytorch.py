"""Runs jobs/recipes/cifar10_94.cfg to the end for several seeds, and compares accuracy and time with PyTorch.

  python tests/benchmarks/recipe_vs_pytorch.py --bin build/bin --data FOLDER_OF_THE_BINARY_VERSION --rounds 5

For Carillon, the script measures two times. The first is the time of the whole process: start, reading, whitening,
training, and the last evaluation with test-time augmentation. The second is the time of the training alone, from the
program's table of phases. After each of these runs, the speed of PyTorch's training step (torch_resnet_worker.py) is
measured in each configuration, over some steps with trainable and some with frozen whitening biases. PyTorch's time is
computed from these speeds and the recipe's number of images. The ratio compares training times. Each round uses another
seed. With --speed-only, the script does not run Carillon to the end: it computes Carillon's time from the speed of some
steps, as for PyTorch. Prints Markdown. Needs an idle machine and a Python with torch.
"""

import importlib.metadata
import json
import pathlib
import statistics
import tempfile
import time

import measure
import versus
from cifar10_vs_pytorch import KEEP_MEMORY

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "recipes" / "cifar10_94.cfg"
BATCH, STEPS, STEPS_WITH_BIASES = 1024, 476, 144  # of the recipe; with trainable whitening biases
STAGES = {"with biases": (STEPS_WITH_BIASES, ()), "frozen": (STEPS - STEPS_WITH_BIASES, ("--frozen",))}
# PyTorch's configurations, with the flags of the worker.
THEIRS = {
    "channels_last": ("--layout", "channels_last"),
    "contiguous": ("--layout", "contiguous"),
    "channels_last, bf16 autocast": ("--layout", "channels_last", "--autocast"),
    "contiguous, bf16 autocast": ("--layout", "contiguous", "--autocast"),
}


def train_ours(comparison, records, seed):
    """Trains with Carillon. Returns (accuracy, seconds of the process, seconds of training)."""
    train_dir = comparison.work / f"seed{seed}"
    command = [
        comparison.options.bin / "cifar10_train", "--config", RECIPE, "--seed", seed, "--device", "cpu",
        "--data", records, "--eval-data", records.parent / "test-*.tfrecord", "--train-dir", train_dir,
    ]  # fmt: skip
    started = time.monotonic()
    output, _ = measure.run(command, timeout=7200)
    seconds = time.monotonic() - started
    training = next(float(line.split()[1]) for line in output.splitlines() if line.startswith("training "))
    lines = map(json.loads, (train_dir / "metrics.jsonl").read_text().splitlines())
    return [line["eval_precision"] for line in lines if "eval_precision" in line][-1], seconds, training


def seconds_of_ours(comparison, records):
    """Returns how many seconds Carillon would take for the recipe's images, computed from the speed of a few steps with
    trainable and with frozen whitening biases."""
    seconds = 0.0
    for steps, flags in STAGES.values():
        stage = comparison.work / "stage.cfg"
        last = f"frozen-after={1 if flags else STEPS}"
        stage.write_text(RECIPE.read_text().replace(f"frozen-after={STEPS_WITH_BIASES}", last))
        with tempfile.TemporaryDirectory(dir=comparison.work) as train_dir:
            command = [
                comparison.options.bin / "cifar10_train", "--config", stage, "--device", "cpu", "--data", records,
                "--test-time-augmentation=false", "--max-steps", comparison.options.steps, "--log-every", 1,
                "--train-dir", train_dir,
            ]  # fmt: skip
            measure.run(command)
            seconds += steps * BATCH / measure.training_rate(train_dir, BATCH, 2)
    return seconds


def seconds_of_theirs(comparison):
    """Returns, for each configuration of PyTorch, how many seconds PyTorch would take for the recipe's images."""
    seconds = []
    for configuration in THEIRS.values():
        seconds.append(0.0)
        for steps, flags in STAGES.values():
            options = ("--network", "airbench94", *configuration, "--optimizer", "fused", *flags)
            command = comparison.worker_command("--threads", comparison.options.threads, *options)
            output, _ = measure.run(command, KEEP_MEMORY)
            seconds[-1] += steps * BATCH / json.loads(output)["examples_per_second"]
    return seconds


def configure(comparison):
    to_the_end = not comparison.options.speed_only
    records = comparison.convert("cifar10")
    print("\n".join(measure.conditions(comparison.options.rounds, PyTorch=importlib.metadata.version("torch"))))
    print("\n| seed | accuracy | seconds | of training | " + " | ".join(f"PyTorch, {name}, seconds" for name in THEIRS) + " |")
    print("|---" * (4 + len(THEIRS)) + "|")
    precisions, ours, theirs = [], [], []
    first = comparison.options.first_seed
    for seed in range(first, first + comparison.options.rounds):
        found = ("-", "-")
        if to_the_end:
            precision, seconds, training = train_ours(comparison, records, seed)
            precisions.append(precision)
            found = (f"{precision:.4f}", f"{seconds:,.0f}")
        else:
            training = seconds_of_ours(comparison, records)
        ours.append(training)
        theirs.append(seconds_of_theirs(comparison))
        cells = (seed, *found, *(f"{value:,.0f}" for value in (training, *theirs[-1])))
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    best = min(map(statistics.median, zip(*theirs)))
    if to_the_end:
        print(f"\nAccuracy: mean {statistics.mean(precisions):.4f}, lowest {min(precisions):.4f}")
    print(f"\nTraining time of their best configuration / ours, medians: **{best / statistics.median(ours):.2f}**")


def main():
    parser = versus.arguments(
        __doc__.splitlines()[0], "folder of CIFAR-10's six .bin files, or their .tar.gz", steps=7, seconds=20.0
    )
    parser.add_argument("--speed-only", action="store_true", help="run only --steps steps of each stage")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch")
    versus.main(parser, "cifar10_train", "torch_resnet_worker.py", BATCH, configure)


if __name__ == "__main__":
    main()
