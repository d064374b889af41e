"""Measures the cost of checkpoints, summaries, comparisons of replicas, memory checks and audits in a training.

  python tests/benchmarks/overheads.py --program build/bin/cifar10_train --data 'data/cifar10/train-*' --ranks 2

Memory checks run in every step. The other features run much more often than usual. For each feature, the script
compares the processor time of a whole run (all ranks and threads, also while they wait) with the processor time of a
run without the feature. The difference divided by the number of uses is the cost of one use. Wall time on a shared host
is too noisy for this. A share is the cost of one use divided by the processor time of the steps in the feature's usual
period. Prints the median of each share over the rounds as Markdown.
"""

import argparse
import pathlib
import resource
import statistics
import sys
import tempfile

import measure

PLAIN = {"--checkpoint-every": 0, "--summary-every": 0, "--check-replicas": 0}
USUAL = 100  # usual period of each feature, in steps
KINDS = {
    "nothing": None,
    "a checkpoint": "--checkpoint-every",
    "a summary": "--summary-every",
    "a comparison of replicas": "--check-replicas",
    "an audit": "--audit",
}


def processor_seconds(options, kind, steps):
    given = PLAIN | ({kind: options.every} if kind else {})
    words = [word for option, value in given.items() for word in (option, value)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(dir=options.work) as train_dir:
        measure.run([
            *measure.mpirun(options.ranks), options.program, "--data", options.data, "--train-dir", train_dir,
            "--device", "cpu", "--batch-size", options.batch, "--max-steps", steps, "--log-every", 0, *words,
        ])  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--data", required=True, help="training records")
    parser.add_argument("--work", type=pathlib.Path, help="folder for train directories (default: the temporary directory)")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128, help="samples a rank")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=5, help="period in steps")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    times = options.steps // options.every
    step_seconds, costs = [], {kind: [] for kind in KINDS}
    for index in range(options.rounds):
        start = processor_seconds(options, None, 1)
        plain = processor_seconds(options, None, options.steps + 1)
        step_seconds.append((plain - start) / options.steps)
        for kind, option in KINDS.items():
            costs[kind].append(processor_seconds(options, option, options.steps + 1) - plain)
        latest = ", ".join(f"{kind} {seconds[-1]:+.2f}" for kind, seconds in costs.items())
        print(f"round {index + 1} of {options.rounds}: {plain:.2f} s; {latest}", file=sys.stderr)
    step = statistics.median(step_seconds)
    print("\n".join(measure.conditions(options.rounds)))
    shown = f"{options.ranks} ranks, batch {options.batch} a rank"
    print(f"- {options.program.name}, {shown}, {1000 * step:.0f} ms a step of processor time\n")
    print(f"| | processor time, ms (median) | lowest to highest | share at the usual period |\n|---|---|---|---|")
    for kind, seconds in costs.items():
        is_every_step = KINDS[kind] in EVERY_STEP
        each = [1000 * cost / (options.steps if is_every_step else times) for cost in seconds]
        median = statistics.median(each)
        share = median / (1000 * step * (1 if is_every_step else USUAL))
        print(f"| {kind} | {median:.1f} | {min(each):.1f} to {max(each):.1f} | {100 * share:.2f} % |")


if __name__ == "__main__":
    main()
