"""mnist_train against a float64 numpy implementation, from one initial checkpoint, at 1, 2 and 3 ranks.

Limits: 1e-3 of the distance travelled for each variable and moving average; logged losses to 1e-4 relative.
"""

import re

import programs
import reference_mnist
from programs import VARIABLES, Result, checkpoint, load, relative_error
from reference_mnist import Recipe

LIMIT = 1e-3
LOSS_LIMIT = 1e-4
SCALE = 1.0 / 255.0
REGIMES = {
    # With raw pixels training is chaotic: float32 leaves float64 after some ten steps whoever computes it.
    "defaults": (Recipe(batch_size=40, decay_steps=1500), 5),
    "scaled": (Recipe(batch_size=40, pixel_scale=SCALE, learning_rate=0.1), 60),
    # Settings strong enough that a slip in decay, regularisation or averaging shows within the limit.
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
CONSOLE = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: step (\d+), loss = (\S+) "
    r"\((\S+) examples/sec; (\S+) sec/batch\)$",
    re.MULTILINE,
)


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
            yield from _compare(context, regime, recipe, steps, ranks, data, initial)


def _initial_values(arrays):
    def weights_are_truncated_normal(name, count):
        values = arrays[name].ravel()
        # Of a normal cut at two deviations the deviation is 0.8796 of the uncut one.
        return values.size == count and abs(values).max() <= 0.2 and abs(values.std() / 0.08796 - 1) < 0.05

    good = weights_are_truncated_normal("variables/layer1/weights", 392000)
    good &= weights_are_truncated_normal("variables/layer2/weights", 5000)
    good &= all(not arrays[f"variables/{layer}/biases"].any() for layer in ("layer1", "layer2"))
    good &= all((arrays[f"variables/{name}"] == arrays[f"moving_averages/{name}"]).all() for name in VARIABLES)
    yield Result("parity: initial values", bool(good), "truncated normal, stddev 0.1; biases 0; averages = variables")


def _compare(context, regime, recipe, steps, ranks, data, initial):
    run = context.directory("parity")
    done = context.train(
        "--init-from", initial, "--shuffle=false", "--log-every=1", f"--max-steps={steps}", *recipe.options(),
        data=data / "train-*.tfrecord", train_dir=run, ranks=ranks,
    )  # fmt: skip
    expected = reference_mnist.train(sorted(data.glob("train-*.tfrecord")), initial, recipe, ranks, steps)
    found = load(checkpoint(run, steps))
    title = f"parity: {regime}, {ranks} x {recipe.batch_size}, {steps} steps"
    for group, reference in (("variables", expected.variables), ("moving_averages", expected.averages)):
        errors = [relative_error(found[f"{group}/{v}"], reference[v], expected.initial[v]) for v in VARIABLES]
        detail = ", ".join(f"{name} {error:.1e}" for name, error in zip(VARIABLES, errors))
        yield Result(f"{title}, {group}", max(errors) <= LIMIT, detail)

    lines = programs.metrics(run)
    # One line a step, in order.
    loss_error = _worst([line["loss"] for line in lines], expected.losses)
    rate_error = _worst([line["learning_rate"] for line in lines], expected.learning_rates)
    passed = loss_error <= LOSS_LIMIT and rate_error <= 1e-6
    yield Result(f"{title}, logs", passed, f"loss to {loss_error:.1e}, learning rate to {rate_error:.1e}")

    printed = [float(loss) for _, loss, _, _ in CONSOLE.findall(done.output)]
    good = len(printed) == steps and all(abs(a - b) <= 0.005 + 1e-4 * b for a, b in zip(printed, expected.losses))
    yield Result(f"{title}, console", good, f"{len(printed)} lines, losses as printed")


def _worst(found, expected):
    if len(found) != len(expected):
        return float("inf")
    return max(abs(a - b) / abs(b) for a, b in zip(found, expected))


if __name__ == "__main__":
    programs.main(check)
