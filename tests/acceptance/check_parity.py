"""Compares mnist_train with a float64 numpy implementation, from the same initial checkpoint, at 1, 2 and 3 ranks.

The error of a variable or moving average may be at most 1e-3 of its change since the initial checkpoint. The relative
error of a logged loss may be at most 1e-4.
"""

import parity
import programs
import reference_mnist
from programs import VARIABLES, Result, checkpoint, load
from reference_mnist import Recipe

LIMIT = 1e-3
SCALE = 1.0 / 255.0
REGIMES = {
    # With raw pixels, the training is chaotic: after about ten steps, every float32 computation differs from float64.
    "defaults": (Recipe(batch_size=40, decay_steps=1500), 5),
    "scaled": (Recipe(batch_size=40, pixel_scale=SCALE, learning_rate=0.1), 60),
    # With these large values, an error in the code of the decay, the regularisation or the averaging exceeds the limit.
    "schedule": (
        Recipe(
            batch_size=40,
            pixel_scale=SCALE,
            learning_rate=0.1,
            learning_rate_decay=0.5,
            decay_steps=15,
            regularization=0.02,
            moving_average_decay=0.7,
        ),
        30,
    ),
}


def check(context):
    """parity with float64 numpy"""
    records = 1000 if context.quick else 5000
    data = context.small_set(records)
    pattern = data / "train-*.tfrecord"
    first = context.directory("initial")
    context.train("--max-steps", 0, data=pattern, train_dir=first)
    initial = checkpoint(first, 0)
    yield from _initial_values(load(initial))
    for regime, (recipe, steps) in REGIMES.items():
        for ranks in (2,) if context.quick else (1, 2, 3):
            paths = sorted(data.glob("train-*.tfrecord"))
            yield from parity.compare(
                context, regime, "mnist_train", reference_mnist, recipe, steps, ranks, paths, initial, LIMIT
            )


def _initial_values(arrays):
    weights = [arrays[f"variables/layer{layer}/weights"] for layer in (1, 2)]
    good = [array.size for array in weights] == [392000, 5000]
    good &= all(parity.is_truncated_normal(array, 0.1) for array in weights)
    good &= all(not arrays[f"variables/{layer}/biases"].any() for layer in ("layer1", "layer2"))
    good &= all((arrays[f"variables/{name}"] == arrays[f"moving_averages/{name}"]).all() for name in VARIABLES)
    yield Result("parity: initial values", bool(good), "truncated normal, stddev 0.1; biases 0; averages = variables")


if __name__ == "__main__":
    programs.main(check)
