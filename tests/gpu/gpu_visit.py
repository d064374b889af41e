"""The checks of a machine with a GPU, in phases with deadlines. jobs/gpu_check.sh --only first runs it.

Each result is written to OUT/summary.txt as soon as it exists, so that a visit that is cut off loses nothing. Every test and
every training is a process of its own with a time limit: one that hangs or loses the GPU fails alone.

    machine    GPU, driver, libraries, and the machine's limits: a large copy, large matrix products (PyTorch)
    tests      every GPU test alone, several at once; failed ones again under compute-sanitizer's memcheck
    networks   ten steps of each network in fp32, GPU against CPU; two runs, captured and eager, stopped and resumed: equal bits
    speed      time of a step, with the GPU to itself
    kernels    ncu: time of each kernel of an eager step
    sanitizer  compute-sanitizer on the tests that match --sanitize; runs only if named in --phases

  tests/gpu/gpu_visit.py --bin BIN --elf ELF --out DIR [--phases tests,networks] [--seconds 560] [--mnist DIR]

BIN has the programs' start scripts, ELF the programs themselves; for a build directory both are build/bin. Needs numpy and
h5py; without PyTorch the limits are missing.
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile
import time

from visit import Deadline, Visit, last_line
from visit_networks import networks
from visit_speed import kernels, speed
from visit_tests import sanitizer, tests

SHARES = {"machine": 0.06, "tests": 0.32, "networks": 0.28, "speed": 0.2, "kernels": 0.14, "sanitizer": 0.2}


def machine(visit, until):
    for command in (
        ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"],
        [visit.options.bin / "mnist_train", "--version"],
    ):
        code, output, _ = visit.run(command, "machine.log", until=until)
        if code:
            visit.result(f"machine: {pathlib.Path(command[0]).name}", False, last_line(output))
        visit.say(f"      {'; '.join(output.splitlines()[:4])}")
    _, output, _ = visit.run(["ldd", visit.options.elf / "mnist_train"], "machine.log", until=until)
    for line in output.splitlines():
        if re.search(r"cudart|cudnn\.|cublas|nccl", line):
            visit.say(f"      {line.strip()}")
    code, output, _ = visit.run([sys.executable, "-c", LIMITS], "machine.log", until=until)
    for line in output.splitlines()[-6:] if code == 0 else [f"no limits of the machine: {last_line(output)}"]:
        visit.say(f"      {line}")


LIMITS = """
import torch
print("PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), torch.cuda.get_device_name())
def seconds(work, count=20):
    for _ in range(3): work()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(count): work()
    b.record(); torch.cuda.synchronize()
    return a.elapsed_time(b) / 1e3 / count
x, y = (torch.empty(2**30, dtype=torch.uint8, device="cuda") for _ in range(2))
print(f"copy: {2 * 2**30 / seconds(lambda: y.copy_(x)) / 1e12:.2f} TB/s, read and written")
for name, kind, tf32 in (("bf16", torch.bfloat16, True), ("tf32", torch.float32, True), ("fp32", torch.float32, False)):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = (torch.randn(8192, 8192, dtype=kind, device="cuda") for _ in range(2))
    print(f"products in {name}: {2 * 8192**3 / seconds(lambda: a @ b, 5) / 1e12:.0f} TFLOP/s")
"""


PHASES = {
    "machine": machine, "tests": tests, "networks": networks, "speed": speed, "kernels": kernels, "sanitizer": sanitizer,
}  # fmt: skip


def records(visit):
    """Writes the records of MNIST that the phases train on."""
    visit.data = {}
    if visit.options.mnist:
        target = visit.work / "mnist-records"
        command = [visit.options.bin / "tfrecord_convert", "mnist", "--input", visit.options.mnist, "--output", target]
        code, output, _ = visit.run(command, "machine.log", 120)
        if code:
            visit.result("records of MNIST", False, last_line(output))
        else:
            visit.data["mnist_train"] = target / "train-*"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--elf", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--mnist", type=pathlib.Path, help="folder of the IDX files; without it, noise")
    parser.add_argument("--seconds", type=float, default=560, help="limit of the whole visit")
    parser.add_argument("--phases", default="machine,tests,networks,speed,kernels")
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 2) - 2), help="processes at once")
    parser.add_argument("--early", default="0", help="values of CARILLON_EARLY_LAUNCH for the tests")
    parser.add_argument("--tests", default=".", help="regular expression: tests to run")
    parser.add_argument("--networks", default=".", help="regular expression: networks to run")
    parser.add_argument("--brief", action="store_true", help="networks: one step only")
    parser.add_argument("--profile", default=".", help="regular expression: networks of phase kernels")
    parser.add_argument(
        "--sanitize", default="TowerOnAGpu|ClassifierStepOnAGpu", help="regular expression: tests of phase sanitizer"
    )
    parser.add_argument("--tools", default="memcheck,racecheck,initcheck,synccheck")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    for name in ("bin", "elf", "out"):
        setattr(options, name, getattr(options, name).resolve())
    phases = options.phases.split(",")
    for phase in phases:
        if phase not in PHASES:
            parser.error(f"--phases: unknown phase '{phase}'")
    with tempfile.TemporaryDirectory(prefix="carillon-visit-") as work:
        visit = Visit(options, pathlib.Path(work))
        try:
            records(visit)
        except Deadline:
            visit.result("records of MNIST", False, "stopped at the deadline")
        for index, phase in enumerate(phases):
            rest = sum(SHARES[later] for later in phases[index:])
            share = visit.left() * SHARES[phase] / rest
            began = time.monotonic()
            visit.say(f"\n{phase}: at most {share:.0f} s")
            try:
                PHASES[phase](visit, began + share)
            except Deadline:
                visit.result(phase, False, "stopped at its deadline")
            except Exception as error:  # the other phases must run
                visit.result(phase, False, f"{type(error).__name__}: {error}")
            visit.say(f"      {phase} took {time.monotonic() - began:.0f} s; {visit.left():.0f} s left")
        visit.say(f"\n{visit.passes} of {visit.passes + visit.failures} passed")
    sys.exit(visit.failures > 0)


if __name__ == "__main__":
    main()
