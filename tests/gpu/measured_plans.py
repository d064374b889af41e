#!/usr/bin/env python3
"""Writes the table of measured plans of cuDNN from the output of time_conv_plans_gpu.

    measured_plans.py [--table FILE] [--least PERCENT] OUTPUT...

For each measured convolution, the table gets the fastest plan if it is more than PERCENT faster than the plan that the
rules choose; otherwise, the convolution's entry is removed. Entries of convolutions that were not measured remain in
the table. Prints the gain of each entry, and the time of cuBLASLt's matrix product.
"""

import argparse
import collections
import pathlib
import re
import sys

TABLE = pathlib.Path(__file__).resolve().parents[2] / "kernels/conv2d/measured_plans.inc"
HEAD = "// Entries {convolution, kernel} of conv2d_plan_cuda.h. Written by tests/gpu/measured_plans.py.\n"
ENTRY = re.compile(r'\{"([^"]*)", "([^"]*)"\},')


def read(paths):
    """Returns {convolution: [(kind, microseconds, kernel)]}"""
    found = collections.defaultdict(list)
    for path in paths:
        for line in path.read_text().splitlines():
            fields = line.split("\t")
            if len(fields) == 6 and fields[0] in ("rules", "plan", "product"):
                kind, _, time, _, kernel, convolution = fields
                found[convolution].append((kind, float(time), kernel))
    return found


def choose(lines, least):
    """Returns (kernel or None, microseconds of the rules' plan, of the fastest plan, and of cuBLASLt's product or
    None)"""
    times = {kind: [time for other, time, _ in lines if other == kind] for kind in ("rules", "product")}
    if not times["rules"]:
        return None, None, None, None
    rules = min(times["rules"])
    best, kernel = min((time, kernel) for kind, time, kernel in lines if kind in ("rules", "plan"))
    chosen = kernel if best * (1 + least / 100) < rules else None
    return chosen, rules, best, min(times["product"], default=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=pathlib.Path, default=TABLE, help="table to update (default: %(default)s)")
    parser.add_argument("--least", type=float, default=3.0, metavar="PERCENT", help="least gain (default: %(default)s)")
    parser.add_argument("outputs", type=pathlib.Path, nargs="+", metavar="OUTPUT")
    options = parser.parse_args()
    entries = dict(ENTRY.findall(options.table.read_text())) if options.table.exists() else {}
    measured = read(options.outputs)
    if not measured:
        sys.exit("measured_plans.py: no measurements in " + ", ".join(map(str, options.outputs)))
    for convolution, lines in measured.items():
        kernel, rules, best, product = choose(lines, options.least)
        entries.pop(convolution, None)
        if kernel:
            entries[convolution] = kernel
        if rules and (kernel or product):
            compared = f", product {product:.1f}" if product else ""
            print(f"{convolution}: rules {rules:.1f} us, best {best:.1f}{compared} {'table' if kernel else ''}")
    lines = [f'{{"{convolution}", "{kernel}"}},\n' for convolution, kernel in sorted(entries.items())]
    options.table.write_text(HEAD + "".join(lines))
    print(f"{len(entries)} entries in {options.table}")


if __name__ == "__main__":
    main()
