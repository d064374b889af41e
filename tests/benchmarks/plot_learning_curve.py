"""Plots the learning curves of runs with --eval-every (PNG), and prints them as a Markdown table.

  python tests/benchmarks/plot_learning_curve.py runs/cifar10/metrics.jsonl --png curve.png --title "CIFAR-10"

Upper plot: accuracy of each evaluation. Lower plot: loss and cross-entropy of the logged steps, as means over --bins parts
of the run. Several runs share one plot, each with its directory's name. Needs matplotlib.
"""

import argparse
import json
import pathlib
import sys


def read(path):
    """Returns (lines of training, lines of evaluation) of a metrics.jsonl."""
    training, evaluations = [], []
    for number, text in enumerate(path.read_text().splitlines(), start=1):
        try:
            line = json.loads(text)
        except ValueError:
            sys.exit(f"{path}: line {number} is not JSON")
        if "eval_precision" in line:
            evaluations.append(line)
        elif "loss" in line:
            training.append(line)
    if not evaluations:
        sys.exit(f"{path}: no evaluation in its {len(training)} lines: train with --eval-data and --eval-every")
    return training, evaluations


def binned(lines, field, bins):
    """Divides the lines into equal parts. Returns ([step], [mean of the field]) of the parts. Omits null values."""
    values = [(line["step"], line[field]) for line in lines if line.get(field) is not None]
    size = max(1, -(-len(values) // bins))
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    return (
        [sum(step for step, _ in part) / len(part) for part in parts],
        [sum(value for _, value in part) / len(part) for part in parts],
    )


def table(training, evaluations):
    """Yields Markdown lines: one per evaluation, with the mean cross-entropy of the steps since the previous
    evaluation."""
    yield "| step | precision @ 1 | right | cross-entropy | hours |"
    yield "|---|---|---|---|---|"
    started = min(line["time"] for line in training + evaluations)
    before = 0
    for line in evaluations:
        recent = [item["cross_entropy"] for item in training if before <= item["step"] < line["step"]]
        recent = [value for value in recent if value is not None]
        mean = f"{sum(recent) / len(recent):.3f}" if recent else ""
        hours = (line["time"] - started) / 3600
        right = f"{line['eval_correct']:,} of {line['eval_total']:,}"
        yield f"| {line['step']:,} | {line['eval_precision']:.4f} | {right} | {mean} | {hours:.2f} |"
        before = line["step"]


def table_of_several(runs):
    """Yields Markdown lines: the accuracy of each run at each step with an evaluation."""
    found = {name: {line["step"]: line for line in evaluations} for name, (_, evaluations) in runs.items()}
    yield "| step | " + " | ".join(f"{name}, precision @ 1" for name in found) + " |"
    yield "|---" * (len(found) + 1) + "|"
    for step in sorted({step for lines in found.values() for step in lines}):
        cells = [f"{lines[step]['eval_precision']:.4f}" if step in lines else "" for lines in found.values()]
        yield f"| {step:,} | " + " | ".join(cells) + " |"


def outcome(evaluations):
    best = max(evaluations, key=lambda line: line["eval_precision"])
    last = evaluations[-1]
    return (
        f"{last['eval_precision']:.4f} after {last['step']:,} steps"
        f" (best {best['eval_precision']:.4f} at {best['step']:,})"
    )


def plot(runs, options):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 7), layout="constrained")
    for name, (training, evaluations) in runs.items():
        of_several = f"{name}: " if len(runs) > 1 else ""
        above.plot(
            [line["step"] for line in evaluations],
            [line["eval_precision"] for line in evaluations],
            marker="o",
            markersize=4,
            label=of_several
            + (outcome(evaluations) if of_several else f"test set, {evaluations[-1]['eval_total']:,} records"),
        )
        for field, label in (("loss", "loss (with L2 terms)"), ("cross_entropy", "cross-entropy")):
            if training:
                below.plot(*binned(training, field, options.bins), label=of_several + label)
    for level in options.level:
        above.axhline(level, color="grey", linestyle="--", linewidth=1, label=f"{level:g}")
    ending = "" if len(runs) > 1 else f": {outcome(next(iter(runs.values()))[1])}"
    above.set_title(options.title + ending)
    above.set_ylabel("precision @ 1")
    below.set_ylabel("training loss, mean")
    below.set_xlabel("global step")
    for axes in (above, below):
        axes.grid(True, which="both", alpha=0.3)
        axes.legend()
    figure.savefig(options.png, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("metrics", type=pathlib.Path, nargs="+", help="a metrics.jsonl")
    parser.add_argument("--png", type=pathlib.Path, required=True, help="file to write the plot to")
    parser.add_argument("--title", default="learning curve")
    parser.add_argument("--level", type=float, action="append", default=[], help="draw a line at this accuracy")
    parser.add_argument("--bins", type=int, default=300, help="number of points of the loss curves")
    options = parser.parse_args()
    for path in options.metrics:
        if not path.is_file():
            parser.error(f"no such file: {path}")
    if options.bins < 1:
        parser.error("--bins: must be 1 or more")
    runs = {path.resolve().parent.name: read(path) for path in options.metrics}
    if len(runs) < len(options.metrics):
        parser.error("two of the runs have directories of the same name")
    try:
        plot(runs, options)
    except (ImportError, OSError) as error:
        sys.exit(f"{options.png}: {error}")
    print("\n".join(table_of_several(runs) if len(runs) > 1 else table(*next(iter(runs.values())))))


if __name__ == "__main__":
    main()
