"""Compares the speed with and without micro-batches for one global batch, with 1 rank and with one rank per core.

  python tests/benchmarks/micro_batches.py --program build/bin/cifar10_train --data 'data/cifar10/train-*'

A configuration combines a division of each rank's batch (undivided, or micro-batches of a given size) with 1 rank that
has a thread per core, or with one rank per core. Each round runs every configuration once, so a change of the machine's
speed affects all configurations equally. Results are medians over rounds. Prints Markdown. Needs an idle machine.
"""

import argparse
import pathlib
import shlex
import tempfile

import measure


def configuration(options, ranks, micro_batch):
    launcher = measure.mpirun(ranks) if ranks > 1 else []
    parts = ("--micro-batch", micro_batch) if micro_batch else ()

    def run():
        with tempfile.TemporaryDirectory() as train_dir:
            command = [
                *launcher, options.program, "--data", options.data, "--train-dir", train_dir, "--device", "cpu",
                "--threads", options.cores // ranks, "--global-batch", options.batch, *parts,
                "--max-steps", options.steps, "--summary-every", 0, "--log-every", max(1, options.steps // 20),
                "--checkpoint-every", 0, *shlex.split(options.options),
            ]  # fmt: skip
            _, peak = measure.run(command)
            return measure.training_rate(train_dir, options.batch, options.steps // 10), peak

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--data", required=True, help="training records")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128, help="samples per step, over all ranks")
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[64, 32, 16])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", default="", help="additional options of the program, quoted as one argument")
    options = parser.parse_args()
    configurations = {}
    for ranks in (1, options.cores):
        for micro_batch in (0, *options.micro_batches):
            if ranks * micro_batch <= options.batch:
                ways = f"in parts of {micro_batch}" if micro_batch else "whole"
                name = f"{ranks} rank{'s' * (ranks > 1)}, {options.cores // ranks} thread(s) each, {ways}"
                configurations[name] = configuration(options, ranks, micro_batch)
    found = measure.interleaved(options.rounds, configurations)
    print("\n".join(measure.conditions(options.rounds)))
    print(f"- {options.program.name} {options.options}, global batch {options.batch}\n")
    print("\n".join(measure.table(found, "examples")))


if __name__ == "__main__":
    main()
