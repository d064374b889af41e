"""Measures the averaging of gradients between two hosts with two ranks each, over a link of a given rate. Compares
averaging in two levels, flat averaging, Open MPI and gloo.

    sudo averaging_between_hosts.py --bin build/bin [--rates 1gbit 10gbit] [--rounds 3]

The hosts are network namespaces (tests/faults/hosts.py). Their link is a veth pair. A token bucket (tc-tbf) limits the
link's rate in both directions; the link has no other delay. Needs root; gloo also needs torch. Prints a table with
times, each also relative to the time of two levels. Each value is a median over the rounds of the medians of single
rounds.
"""

import argparse
import collections
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "faults"))

from hosts import MESSAGES, TwoHosts  # noqa: E402

ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def measured(command, environment):
    """Runs the command. Yields (size, operation, milliseconds) for each line of its output."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stderr}")
    for line in done.stdout.splitlines():
        size, operation, milliseconds = line.split("; ")
        yield size, operation, float(milliseconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--rates", nargs="+", default=["1gbit", "10gbit"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=9)
    options = parser.parse_args()
    environment = os.environ | ROOT | {"GLOO_SOCKET_IFNAME": "eth1", "OMP_NUM_THREADS": "1"}
    for rate in options.rates:
        found = collections.defaultdict(list)
        for turn in range(options.rounds):
            with TwoHosts() as hosts:
                hosts.slow_down(rate)
                launcher = [*hosts.launcher(4), "-x", "GLOO_SOCKET_IFNAME", "-x", "OMP_NUM_THREADS"]
                ours = [*launcher, str((options.bin / "hosts_benchmark").resolve()), str(options.iterations)]
                gloo = [*launcher, sys.executable, str(HERE / "gloo_worker.py"), str(options.iterations)]
                for command in (ours, [*gloo, f"{MESSAGES}.1:{29500 + turn}"]):
                    for size, operation, milliseconds in measured(command, environment):
                        found[size, operation].append(milliseconds)
        print(f"\n{rate}, 2 hosts x 2 ranks, medians of {options.rounds} rounds:\n\n| gradients | way | ms | of two levels |")
        print("|---|---|---|---|")
        for (size, operation), values in found.items():
            median, own = statistics.median(values), statistics.median(found[size, "two levels"])
            print(f"| {size} | {operation} | {median:.2f} | {median / own:.2f} |")


if __name__ == "__main__":
    main()
