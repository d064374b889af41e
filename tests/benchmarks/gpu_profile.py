"""Prints time and bytes per kernel of one training step, from ncu's CSV output (jobs/gpu_check.sh --only profile).

  python tests/benchmarks/gpu_profile.py LOG.csv --steps 20

With --steps, lists the kernels that ran at least once per step, and omits kernels of the start-up. Without --steps, the
log must begin after the start-up and contain more than one step; the script takes the period with which the kernels
repeat as a step. ncu serialises kernels, so the time of each kernel is its time without concurrent kernels. Prints
Markdown.
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
    """Returns [(kernel, {metric: microseconds or megabytes})] in the order of the launches."""
    with open(path, newline="") as file:
        lines = [line for line in file if line.startswith('"')]  # ncu's own lines begin with ==
    launches = {}
    for row in csv.DictReader(lines):
        _, metrics = launches.setdefault(int(row["ID"]), (row["Kernel Name"], {}))
        try:
            metrics[row["Metric Name"]] = float(row["Metric Value"].replace(",", "")) * SCALE[row["Metric Unit"]]
        except (ValueError, KeyError):  # the GPU does not count this metric
            continue
    return [launches[index] for index in sorted(launches)]


def one_step(launches):
    """Returns the launches of the first period with which the kernels repeat. Returns [] if the log does not contain
    more than one period."""
    names = [name for name, _ in launches]
    for period in range(1, len(names) - len(names) // 20):
        if names[period:] == names[:-period]:
            return launches[:period]
    return []


def _short(name):
    """Returns a short name of a kernel: the functor of a kernel of Carillon, or the last 60 characters of a library's
    kernel."""
    plain = re.sub(r"carillon::|\((?:int|bool|long)\)", "", name)
    own = re.search(r"block_kernel<(.*)>\s*\(", plain)
    if own:
        return own[1].strip()[:60]
    return re.sub(r"<.*|\(.*", "", name.replace("void ", ""))[-60:]


def table(launches, steps=1):
    """Yields Markdown lines, the slowest kernel first."""
    bytes_known = any(READ in metrics for _, metrics in launches)
    yield "| kernel | launches per step | us per step |" + (" MB read | MB written | TB/s |" if bytes_known else "")
    yield "|---|---|---|" + ("---|---|---|" if bytes_known else "")
    kernels = collections.defaultdict(list)
    for name, metrics in launches:
        kernels[name].append([metrics.get(metric, 0.0) for metric in (TIME, READ, WRITE)])
    rows = [
        (_short(name), len(values) / steps, *(sum(column) / steps for column in zip(*values)))
        for name, values in kernels.items()
        if len(values) >= steps
    ]
    rows.sort(key=lambda row: -row[2])
    for name, *sums in [*rows, ("all", *(sum(row[column] for row in rows) for column in range(1, 5)))]:
        count, microseconds, read_mb, written_mb = sums
        rate = (read_mb + written_mb) / microseconds if microseconds else 0.0
        moved = f" {read_mb:.2f} | {written_mb:.2f} | {rate:.2f} |" if bytes_known else ""
        yield f"| {name} | {count:.0f} | {microseconds:.2f} |" + moved


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--steps", type=int, help="of the run")
    options = parser.parse_args()
    launches = read(options.log)
    if not options.steps:
        launches = one_step(launches)
    if not launches:
        sys.exit(f"{options.log}: contains no kernel, or no complete step")
    print("\n".join(table(launches, options.steps or 1)))
