"""Checks the accuracy of whole trainings on a GPU in each precision: MNIST with the fast recipe, CIFAR-10 for 5000 and
100000 steps.

Needs the real MNIST and CIFAR-10. --quick omits the training of 100000 steps.

  tests/acceptance/check_gpu_accuracy.py --bin build/bin --data DIRECTORY_OF_MNIST --cifar10 FOLDER_OR_ARCHIVE
"""

import pathlib
import re
import time

import programs
from programs import Result

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "jobs/recipes/mnist_fast.cfg"
LOGS = ("--log-every", 1000, "--summary-every", 0, "--checkpoint-every", 0)
PUBLISHED = 0.86  # accuracy of the tutorial after 100000 steps


def check(context):
    """accuracy on a GPU"""
    mnist, cifar10 = context.work / "mnist", context.work / "cifar10"
    context.run("tfrecord_convert", "mnist", "--input", context.images, "--output", mnist)
    context.run("tfrecord_convert", "cifar10", "--input", context.cifar10, "--output", cifar10)
    recipe = ("--config", RECIPE, "--batch-size", 200)
    yield from _precisions(context, "mnist", mnist, 0.003, "MNIST, fast recipe", *recipe)
    yield from _precisions(context, "cifar10", cifar10, 0.01, "CIFAR-10, 5000 steps", "--max-steps", 5000)
    if not context.quick:
        steps = 100000
        found, seconds = _train(context, "cifar10", cifar10, "--max-steps", steps)
        detail = f"{found:.4f} (published {PUBLISHED}) in {seconds:.0f} s"
        yield Result(f"gpu: CIFAR-10, {steps} steps, fp32", abs(found - PUBLISHED) <= 0.01, detail)


def _precisions(context, name, data, limit, title, *options):
    """The accuracies in tf32 and bf16 must be within `limit` of the accuracy in fp32."""
    exact = None
    for precision in ("fp32", "tf32", "bf16"):
        found, seconds = _train(context, name, data, "--precision", precision, *options)
        exact = found if exact is None else exact
        detail = f"{found:.4f} (fp32: {exact:.4f} +- {limit}) in {seconds:.1f} s"
        yield Result(f"gpu: {title}, {precision}", abs(found - exact) <= limit, detail)


def _train(context, name, data, *options):
    """Trains. Returns (accuracy of the moving averages on 10000 test images, wall seconds)."""
    run = context.directory(name)
    started = time.monotonic()
    context.train(
        *options, *LOGS, program=f"{name}_train", data=data / "train-*", train_dir=run, device="cuda", timeout=900
    )
    seconds = time.monotonic() - started
    done = context.run(f"{name}_eval", "--data", data / "test-*", "--checkpoint", run, "--device", "cuda")
    found = re.search(r"precision @ 1 = \S+ \((\d+)/(\d+)\)", done.output)
    if found[2] != "10000":
        raise ValueError(f"{found[2]} test images: this is not the whole data set")
    return int(found[1]) / int(found[2]), seconds


if __name__ == "__main__":
    programs.main(check)
