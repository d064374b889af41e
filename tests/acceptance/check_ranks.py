"""Trainings with the same global batch at 1, 2 and 4 ranks end with the same model, except for rounding. If a run is
repeated, the model has the same bits."""

import programs
from programs import SCALED, VARIABLES, Result, checkpoint, load, relative_error, same_bits, worst

LIMIT = 1e-2
GLOBAL_BATCH = 96


def check(context):
    """independence of the rank count"""
    steps, records = (30, 1000) if context.quick else (100, 5000)
    data = context.small_set(records) / "train-*.tfrecord"
    first = context.directory("initial")
    context.train("--max-steps", 0, data=data, train_dir=first)
    initial = load(checkpoint(first, 0))

    def run(ranks):
        train_dir = context.directory("ranks")
        context.train(
            *SCALED, "--batch-size", GLOBAL_BATCH // ranks, "--max-steps", steps,
            data=data, train_dir=train_dir, ranks=ranks,
        )  # fmt: skip
        return checkpoint(train_dir, steps)

    one = run(1)
    expected = load(one)
    for ranks in (2, 4):
        path = run(ranks)
        found = load(path)
        error = worst(
            relative_error(found[f"{group}/{name}"], expected[f"{group}/{name}"], initial[f"variables/{name}"])
            for group in ("variables", "moving_averages")
            for name in VARIABLES
        )
        title = f"ranks: {ranks} x {GLOBAL_BATCH // ranks} = 1 x {GLOBAL_BATCH}, {steps} shuffled steps"
        yield Result(title, error <= LIMIT, f"error {error:.1e} of the distance travelled")
        again = run(ranks)
        difference = same_bits(path, again)
        files = "files equal" if path.read_bytes() == again.read_bytes() else "arrays equal"
        title = f"ranks: two runs at {ranks} x {GLOBAL_BATCH // ranks} are equal bit for bit"
        yield Result(title, not difference, difference or files)


if __name__ == "__main__":
    programs.main(check)
