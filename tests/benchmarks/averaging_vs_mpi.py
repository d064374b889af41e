"""Compares Carillon's averaging between ranks of one host with MPI_Allreduce and torch.distributed's gloo.

  python tests/benchmarks/averaging_vs_mpi.py --bin build/bin

Uses the gradients of the MNIST and the CIFAR-10 network, 1.59 and 4.27 MB. averaging_benchmark runs its operations in
turn; its rounds alternate with gloo's rounds. Each value is a median over the rounds of the medians of single rounds.
Prints Markdown. Needs an idle machine with one core per rank. Without torch, gloo is omitted.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import measure

HERE = pathlib.Path(__file__).resolve().parent
LINE = re.compile(r"^(\S.*?)\s+([\d.]+) MB\s+([\d.]+) us\s+\(median ([\d.]+)\)", re.MULTILINE)
COUNTS = (397510, 1068298)  # number of floats in the gradients of each network
GLOO = "gloo all_reduce (PyTorch)"
PAIRS = (  # both operations of a pair do the same work
    ("MPI_Allreduce", "averaging"),
    (GLOO, "averaging"),
    ("MPI_Allreduce, then update", "averaging and update"),
    ("averaging, then update", "averaging and update"),
)


def ours(program, ranks, iterations):
    """Runs averaging_benchmark. Returns {(operation, megabytes as text, such as "1.59"): microseconds}."""
    output, _ = measure.run([*measure.mpirun(ranks), program, iterations])
    found = {(name, size): float(median) for name, size, _, median in LINE.findall(output)}
    return found or sys.exit(f"{program}: no times in its output:\n{output}")


def theirs(ranks, iterations):
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, HERE / "torch_allreduce_worker.py", "--ranks", ranks, "--iterations", iterations,
            "--rendezvous", pathlib.Path(folder) / "meet", "--counts", *COUNTS,
        ]  # fmt: skip
        others = [
            subprocess.Popen([*map(str, command), "--rank", str(rank)], stdout=subprocess.DEVNULL)
            for rank in range(1, ranks)
        ]
        output, _ = measure.run([*command, "--rank", 0])
        for process in others:
            process.wait(timeout=60)
    return {(GLOO, f"{int(size) / 1e6:.2f}"): spent for size, spent in json.loads(output).items()}


def table(found):
    """Yields Markdown lines. found: {(operation, size): microseconds of each round}"""
    sizes = sorted({size for _, size in found}, key=float)
    medians = {key: statistics.median(rounds) for key, rounds in found.items()}
    yield "| operation | " + " | ".join(f"{size} MB, us (lowest to highest)" for size in sizes) + " |"
    yield "|---" * (1 + len(sizes)) + "|"
    names = list(dict.fromkeys(name for name, _ in found))
    for name in names:
        cells = (
            f"{medians[name, size]:,.0f} ({min(found[name, size]):,.0f} to {max(found[name, size]):,.0f})"
            for size in sizes
        )
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    for other, own in PAIRS:
        if other in names:
            ratios = ", ".join(f"{medians[other, size] / medians[own, size]:.1f} at {size} MB" for size in sizes)
            yield f"- {other} / {own}: {ratios}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=300, help="iterations of each operation in a round")
    options = parser.parse_args()
    versions = {"Python": sys.version.split()[0]}
    versions["Open MPI"] = re.search(r"[\d.]+\d", measure.run(["mpirun", "--version"])[0])[0]
    sides = [lambda: ours(options.bin / "averaging_benchmark", options.ranks, options.iterations)]
    if importlib.util.find_spec("torch"):
        versions["PyTorch"] = importlib.metadata.version("torch")
        sides.append(lambda: theirs(options.ranks, options.iterations))
    lines = [*measure.conditions(options.rounds, **versions), ""]
    found = {}
    for index in range(options.rounds):
        for side in sides:
            for key, spent in side().items():
                found.setdefault(key, []).append(spent)
        print(f"round {index + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print("\n".join([*lines, *table(found)]))


if __name__ == "__main__":
    main()
