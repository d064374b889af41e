"""What the watch's thread, checkpoints, summaries and comparisons cost a training: steps per second with each, against without any.

  python tests/benchmarks/overheads.py --program build/bin/cifar10_train --data 'data/cifar10/train-*' --ranks 2

The runs take turns, each in a train directory of its own on the disk of --work; a share is the median of the rounds' own
against the run without in the same round. Prints Markdown. Needs an idle machine with a core a rank.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

import measure

PLAIN = {"--stall-timeout": 0, "--checkpoint-every": 0, "--summary-every": 0, "--check-replicas": 0}
KINDS = {
    "none": {},
    "none, again": {},
    "the watch's thread": {"--stall-timeout": 300},
    "a checkpoint every 100 steps": {"--checkpoint-every": 100},
    "summaries every 100 steps": {"--summary-every": 100},
    "replicas compared every 100 steps": {"--check-replicas": 100},
}


def rate(options, changes):
    words = [word for option, value in (PLAIN | changes).items() for word in (option, value)]
    with tempfile.TemporaryDirectory(dir=options.work) as train_dir:
        measure.run([
            *measure.mpirun(options.ranks), options.program, "--data", options.data, "--train-dir", train_dir,
            "--device", "cpu", "--batch-size", options.batch, "--max-steps", options.steps + 100, "--log-every", 50, *words,
        ])  # fmt: skip
        return measure.training_rate(train_dir, options.batch * options.ranks, 100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--data", required=True, help="training records")
    parser.add_argument("--work", type=pathlib.Path, help="where the train directories are (default: the temporary one)")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128, help="samples a rank")
    parser.add_argument("--steps", type=int, default=400, help="that count; 100 come before them")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    found = {kind: [] for kind in KINDS}
    for index in range(options.rounds):
        for kind, changes in KINDS.items():
            found[kind].append(rate(options, changes))
        latest = ", ".join(f"{rates[-1]:,.0f}" for rates in found.values())
        print(f"round {index + 1} of {options.rounds}: {latest} examples/s", file=sys.stderr)
    print("\n".join(measure.conditions(options.rounds)))
    print(f"- {options.program.name}, {options.ranks} ranks, batch {options.batch} a rank\n")
    print("| with | examples/s (median) | lowest to highest | costs |\n|---|---|---|---|")
    for kind, rates in found.items():
        cost = statistics.median(plain / own - 1.0 for plain, own in zip(found["none"], rates))
        median, low, high = statistics.median(rates), min(rates), max(rates)
        print(f"| {kind} | {median:,.0f} | {low:,.0f} to {high:,.0f} | {100 * cost:+.1f} % |")


if __name__ == "__main__":
    main()
