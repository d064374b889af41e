#!/usr/bin/env python3
"""Draws the dependencies of the parts of the library from the #include lines, and compares them with the order of the
parts in src/CMakeLists.txt.

    tests/structure/check_parts.py            prints the drawing for docs/developer-guide/architecture.md
    tests/structure/check_parts.py --check    fails if a part uses a higher one, if the drawing in the page is outdated, or
                                              if an installed header includes MPI, oneDNN, CUDA, JSON or protobuf
"""
import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/developer-guide/architecture.md"
BEGIN, END = "<!-- parts: tests/structure/check_parts.py -->\n", "<!-- end of parts -->\n"
INCLUDE = re.compile(r'^\s*#include\s+["<]([^">]+)[">]', re.M)
PRIVATE = re.compile(r"^(mpi\.h|dnnl|cuda|cudnn|cublas|nccl|nlohmann/|hdf5|hwloc|archive|curl/|openssl/|src/)|\.pb\.h$")


def parts_in_order():
    text = (ROOT / "src/CMakeLists.txt").read_text()
    names = re.findall(r"^carillon_library\((\w+)", text, re.M)
    # These two are folders of the part data.
    return [name for name in names if name not in ("data_convert", "data_download")]


def part_of(path):
    """Returns the part of a file or of an included name; None if it belongs to no part."""
    if path.startswith("kernels/"):
        return "kernels"
    found = re.match(r"(?:include/carillon|carillon|src)/(\w+)/(?:(options)/)?", path)
    if not found or found[1] == "cmake":
        return None
    return found[2] or found[1]  # src/cli/options is a separate part, below the parts that use it


def files():
    for folder in ("include", "src", "kernels"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                yield path.relative_to(ROOT).as_posix(), INCLUDE.findall(path.read_text())


def installed_kernel_headers():
    """Returns the headers kernels/<op>/<op>.h, and the shared headers that CarillonInstall.cmake names."""
    ops = {f"kernels/{folder.name}/{folder.name}.h" for folder in (ROOT / "kernels").iterdir()}
    named = re.findall(r"kernels/shared/\w+\.h", (ROOT / "src/cmake/CarillonInstall.cmake").read_text())
    return {header for header in ops if (ROOT / header).exists()} | set(named)


def arrows():
    """Returns {part: {included part: one of its #include lines}}"""
    found = collections.defaultdict(dict)
    for path, includes in files():
        part = part_of(path)
        for included in includes if part else ():
            other = part_of(included)
            if other and other != part:
                found[part].setdefault(other, f"{path} includes {included}")
    return found


def reaches(uses, start, goal):
    """Returns whether two or more arrows lead from `start` to `goal`."""
    seen, waiting = set(), [p for p in uses[start] if p != goal]
    while waiting:
        part = waiting.pop()
        if goal in uses[part]:
            return True
        waiting.extend(p for p in uses[part] if p not in seen)
        seen.update(uses[part])
    return False


def drawing(order, uses):
    width = max(map(len, order))
    lines = ["```mermaid", "graph TD"]
    for part in reversed(order):
        for other in order:
            if other in uses[part] and not reaches(uses, part, other):
                lines.append(f"  {part} --> {other}")
    note = (
        "The diagram omits transitive arrows. "
        "The table has all arrows: the part of a row uses the parts that are marked with x."
    )
    lines += ["```", "", note, "", "```text"]
    for row, part in enumerate(order):
        marks = " ".join("x" if order[column] in uses[part] else "." for column in range(row))
        lines.append(f"{part:<{width}}  {marks}{' ' if marks else ''}\\")
    lines.append("```")
    return "\n".join(lines) + "\n"


def faults(order, uses):
    place = {part: i for i, part in enumerate(order)}
    for part in sorted(uses):
        if part not in place:
            yield f"{part}: a folder that src/CMakeLists.txt does not list"
            continue
        for other, example in uses[part].items():
            if place.get(other, len(order)) > place[part]:
                yield f"part {part} uses the higher part {other}: {example}"
    kernels = installed_kernel_headers()
    for path, includes in files():
        if path.startswith("include/") or path in kernels:
            for included in includes:
                if PRIVATE.search(included) or (included.startswith("kernels/") and included not in kernels):
                    yield f"{path} is installed, but includes {included}, which is not installed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    order, uses = parts_in_order(), arrows()
    text = drawing(order, uses)
    if not parser.parse_args().check:
        print(text, end="")
        return 0
    found = list(faults(order, uses))
    page = (ROOT / PAGE).read_text()
    if BEGIN + text + END not in page:
        found.append(f"{PAGE} has an outdated drawing of the parts (run this program without --check and paste its output)")
    for fault in found:
        print(fault)
    print(f"{len(order)} parts, {sum(map(len, uses.values()))} arrows: {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
