"""Measures weak scaling on one host: the speed of n ranks, divided by n times the speed of one rank.

  python tests/benchmarks/rank_scaling.py --program build/bin/cifar10_train --data 'data/cifar10/train-*'

Also measures n independent runs of one rank at the same time. Their loss of speed is due to the processor (clock, level
3 cache, memory, other guests). The additional loss of n ranks of one run is due to waiting and averaging. Each round
runs every configuration once, so a change of the machine's speed affects all configurations equally. Shares are medians
over rounds. Prints Markdown. Needs an idle machine with one core per rank.
"""

import argparse
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

import measure


def command(options, train_dir, launcher=()):
    return [
        *launcher, options.program, "--data", options.data, "--train-dir", train_dir, "--device", "cpu", "--threads", 1,
        "--batch-size", options.batch, "--max-steps", options.steps, "--summary-every", 0,
        "--log-every", max(1, options.steps // 20), "--checkpoint-every", 0, *shlex.split(options.options),
    ]  # fmt: skip


def rate(options, train_dir, ranks):
    return measure.training_rate(train_dir, options.batch * ranks, options.steps // 10)


def together(options, ranks):
    with tempfile.TemporaryDirectory() as train_dir:
        measure.run(command(options, train_dir, measure.mpirun(ranks)))
        return rate(options, train_dir, ranks)


def separately(options, ranks):
    """Runs `ranks` independent runs of one rank at the same time. Returns the sum of their rates."""
    with tempfile.TemporaryDirectory() as work:
        folders = [f"{work}/{index}" for index in range(ranks)]
        runs = [
            subprocess.Popen(
                ["taskset", "-c", str(core), *map(str, command(options, folder))],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for core, folder in enumerate(folders)
        ]  # fmt: skip
        if any([process.wait(timeout=600) for process in runs]):
            sys.exit("a run failed")
        return sum(rate(options, folder, 1) for folder in folders)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--data", required=True, help="training records")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="samples a rank")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", default="", help="additional options of the program, quoted as one argument")
    options = parser.parse_args()
    ranks = options.ranks
    rounds = []
    for index in range(options.rounds):
        found = together(options, 1), together(options, ranks), separately(options, ranks)
        print(f"round {index + 1} of {options.rounds}: " + ", ".join(f"{r:,.0f}/s" for r in found), file=sys.stderr)
        rounds.append(found)
    one, several, apart = zip(*rounds)
    print("\n".join(measure.conditions(options.rounds)))
    print(f"- {options.program.name}, batch {options.batch} a rank, one thread a rank\n")
    print(f"| configuration | examples/s (median) | lowest to highest | of {ranks} times one rank |\n|---|---|---|---|")
    for name, rates in (("1 rank", one), (f"{ranks} ranks", several), (f"{ranks} runs of 1 rank at once", apart)):
        share = statistics.median(r / (ranks * o) for r, o in zip(rates, one))
        print(f"| {name} | {statistics.median(rates):,.0f} | {min(rates):,.0f} to {max(rates):,.0f} | {share:.2f} |")
    print(f"\n{ranks} ranks / {ranks} runs: **{statistics.median(s / a for s, a in zip(several, apart)):.2f}**")


if __name__ == "__main__":
    main()
