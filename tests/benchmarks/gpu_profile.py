"""Prints time and bytes per kernel of one training step, from ncu's CSV output (jobs/gpu_check.sh --only profile).

  python tests/benchmarks/gpu_profile.py LOG.csv --steps 20

Lists the kernels that ran at least once per step and omits those of the start-up. ncu serialises kernels, so the times are
those of each kernel alone. Prints Markdown.
"""

import argparse
import collections
import csv
import re
import sys

SCALE = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6}
SCALE |= {"byte": 1e-6, "Kbyte": 1e-3, "Mbyte": 1.0, "Gbyte": 1e3}
TIME, READ, WRITE = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"


def read(path):
    """{kernel: {metric: [microseconds or megabytes of each launch]}}"""
    with open(path, newline="") as file:
        lines = [line for line in file if line.startswith('"')]  # ncu's own lines begin with ==
    kernels = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in csv.DictReader(lines):
        value = float(row["Metric Value"].replace(",", ""))
        kernels[row["Kernel Name"]][row["Metric Name"]].append(value * SCALE[row["Metric Unit"]])
    return kernels


def _short(name):
    """The name of a kernel: the functor of our own ones, the last 60 characters of a library's."""
    plain = re.sub(r"carillon::|\((?:int|bool|long)\)", "", name)
    own = re.search(r"block_kernel<(.*)>\s*\(", plain)
    if own:
        return own[1].strip()[:60]
    return re.sub(r"<.*|\(.*", "", name.replace("void ", ""))[-60:]


def table(kernels, steps):
    """Markdown lines, the slowest kernel first."""
    bytes_known = any(metrics[READ] for metrics in kernels.values())
    yield "| kernel | launches per step | us per step |" + (" MB read | MB written | GB/s |" if bytes_known else "")
    yield "|---|---|---|" + ("---|---|---|" if bytes_known else "")
    rows = []
    for name, metrics in kernels.items():
        launches = len(metrics[TIME]) / steps
        if launches >= 1:
            rows.append((name, launches, *(sum(metrics[metric]) / steps for metric in (TIME, READ, WRITE))))
    for name, launches, microseconds, read_mb, written_mb in sorted(rows, key=lambda row: -row[2]):
        short = _short(name)
        rate = (read_mb + written_mb) / microseconds * 1e3
        moved = f" {read_mb:.2f} | {written_mb:.2f} | {rate:,.0f} |" if bytes_known else ""
        yield f"| {short} | {launches:.0f} | {microseconds:.2f} |" + moved
    launches, microseconds = (sum(row[column] for row in rows) for column in (1, 2))
    yield f"| all | {launches:.0f} | {microseconds:.2f} |" + (" | | |" if bytes_known else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--steps", type=int, required=True, help="of the run")
    options = parser.parse_args()
    kernels = read(options.log)
    if not kernels:
        sys.exit(f"{options.log}: contains no kernel")
    print("\n".join(table(kernels, options.steps)))
