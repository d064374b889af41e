"""Checks that the variables of CUDA kernels fit into registers.

  kernel_resources.py record COMPILER OPTION...       runs nvcc -Xptxas=-v as a compiler launcher
  kernel_resources.py check BUILD_DIRECTORY [--table] reads the records of a build

`record` writes the lines that ptxas prints about each kernel to OUTPUT.resources, and prints all other output. `check`
fails if a kernel keeps variables in memory, which is slow: if it spills registers or has a stack frame of more than 16
bytes. KNOWN lists exceptions. `check` also fails if an object of a *.cu file has no record. --table prints registers,
stack frame and shared memory of each kernel.
"""

import json
import pathlib
import re
import subprocess
import sys

MOST_STACK_BYTES = 16  # for some kernels without spills, ptxas reserves 8 bytes
# Exceptions: (pattern of kernel names, allowed bytes of stack, allowed bytes of spills).
KNOWN = (
    # One thread of a block draws random numbers in double. For rare arguments, sine, cosine and power use arrays.
    (r"(MixImages|Softmax|MeanLoss)Kernel<", 104, 32),
    (r"ImageInputKernel<", 128, 32),  # as above; in addition, one thread has arrays of channel means
    # ptxas limits these kernels to 80 registers by spilling 4 bytes (the second line: for sm_80).
    (r"ColumnSums<\d, (BatchGradients<float, 4, Silu>|SumGradients<float, 1, false>), CombineGradients>", 8, 8),
    (r"DepthwiseInputGradient<float, 4>|DepthwiseConvolve<Bf16, 4, 7, 1>", 8, 24),
)
KERNEL = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
REPORT = re.compile(
    rf"{KERNEL.pattern}|{FRAME.pattern}|{REGISTERS.pattern}|Function properties for|bytes gmem|Compile time = "
)


def record(command):
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    lines = done.stderr.splitlines(keepends=True)
    sys.stderr.writelines(line for line in lines if not REPORT.search(line))
    if "-o" in command and done.returncode == 0:
        report = "".join(line for line in lines if REPORT.search(line))
        pathlib.Path(command[command.index("-o") + 1] + ".resources").write_text(report)
    return done.returncode


def kernels(path):
    """Returns the kernels of one record as a list of {name, architecture, frame, spills, registers, shared}. Includes
    the functions that kernels call."""
    found = []
    for line in path.read_text().splitlines():
        if match := KERNEL.search(line):
            found.append({"name": match[1], "architecture": match[2], "frame": 0, "spills": 0})
        elif (match := FRAME.search(line)) and found:
            found[-1]["frame"] = max(found[-1]["frame"], int(match[1]))
            found[-1]["spills"] += int(match[2]) + int(match[3])
        elif match := REGISTERS.search(line):
            shared = SHARED.search(line)
            found[-1] |= {"registers": int(match[1]), "shared": int(shared[1]) if shared else 0}
    if not found or any("registers" not in kernel for kernel in found):
        sys.exit(f"{path}: ptxas's report is incomplete (build again from nothing)")
    return found


def records(build):
    """Returns the records of the objects of all *.cu files that nvcc compiles."""
    paths = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = entry["command"].split()
        if entry["file"].endswith(".cu") and "-Xptxas=-v" in words:
            paths.append(pathlib.Path(entry["directory"]) / (words[words.index("-o") + 1] + ".resources"))
    missing = [str(path) for path in paths if not path.exists()]
    if missing or not paths:
        sys.exit("no report of ptxas: " + (", ".join(missing) or f"{build} has no CUDA kernels"))
    return sorted(paths)


def readable(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True)
    return [re.sub(r"carillon::|\(anonymous namespace\)::", "", name) for name in done.stdout.splitlines()]


def fits(kernel):
    frame, spills = MOST_STACK_BYTES, 0
    for pattern, known_frame, known_spills in KNOWN:
        if re.search(pattern, kernel["name"]):
            frame, spills = known_frame, known_spills
    return kernel["frame"] <= frame and kernel["spills"] <= spills


def check(build, prints_table):
    found = [kernel for path in records(build) for kernel in kernels(path)]
    for kernel, name in zip(found, readable([kernel["name"] for kernel in found])):
        kernel["name"] = name
    if prints_table:
        print("architecture  registers  stack  shared  kernel")
        for k in sorted(found, key=lambda kernel: -kernel["registers"]):
            print(f"{k['architecture']:12}  {k['registers']:9}  {k['frame']:5}  {k['shared']:6}  {k['name']}")
    wrong = [kernel for kernel in found if not fits(kernel)]
    for k in wrong:
        print(f"{k['name']} ({k['architecture']}): {k['frame']} bytes of stack, {k['spills']} bytes of spills")
    print(f"{len(found) - len(wrong)} of {len(found)} kernels fit into registers, or are known not to")
    return 1 if wrong else 0


def main():
    mode, words = sys.argv[1], sys.argv[2:]
    return record(words) if mode == "record" else check(pathlib.Path(words[0]), "--table" in words)


if __name__ == "__main__":
    sys.exit(main())
