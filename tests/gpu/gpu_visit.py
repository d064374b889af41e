"""The checks of a machine with a GPU, in phases with deadlines. jobs/gpu_check.sh --only second runs it.

Each result is written to OUT/summary.txt immediately, so that no result is lost if the visit ends early. Each test and
each training is a separate process with a time limit: if it hangs or loses the GPU, only this process fails.

    machine    GPU, driver, libraries, and the machine's limits: a large copy, large matrix products (PyTorch)
    tests      every GPU test alone, several at once; with --memcheck, failed ones again under compute-sanitizer
    pytorch    PyTorch on the GPU, compiled and not; runs in parallel with the phases after it, in turns
    cpu        bf16 on the CPU against PyTorch, scaling over ranks; in parallel with the phases after it, on other cores
    speed      time of a step, with the GPU to itself
    kernels    ncu: time and bytes of each kernel of a step
    switches   the time of a step with one way of computing switched off (CARILLON_GPU_OFF), or with early launch
    plans      the time of cuDNN's plans (time_conv_plans_gpu)
    bits       20 steps in bf16 and fp32: two runs, captured and eager, stopped and resumed have equal bits
    networks   ten steps of each network in fp32, GPU against CPU, and equal bits; runs only if named in --phases
    sanitizer  compute-sanitizer on the tests that match --sanitize; runs only if named in --phases

  tests/gpu/gpu_visit.py --bin BIN --elf ELF --out DIR [--phases tests,speed] [--networks vit] [--seconds 560]

BIN has the programs' start scripts, ELF the programs themselves; for a build directory both are build/bin. Needs numpy and
h5py; without PyTorch the limits are missing.
"""

import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import re
import sys
import tempfile
import time

from visit import Deadline, Visit, last_line
from visit_cpu import cpu
from visit_networks import bits, networks
from visit_pytorch import pytorch
from visit_speed import kernels, plans, speed, switches
from visit_tests import sanitizer, tests

TESTS = pathlib.Path(__file__).resolve().parents[1]
# A visit has 560 seconds. The table has the seconds of each phase. If a phase needs less time, the later phases can use
# the remaining time.
SHARES = {
    "machine": 12, "tests": 80, "speed": 60, "kernels": 110, "switches": 120, "plans": 90, "bits": 70, "networks": 160,
    "sanitizer": 110,
}  # fmt: skip
BESIDE = {"pytorch": pytorch, "cpu": cpu}  # these run in parallel with the later phases, until the end of the visit
NO_DATA = ("machine", "tests", "plans", "sanitizer")
LIBRARIES = ("libcuda.so.1", "libnvrtc.so.13", "libcudnn.so.9", "libcublasLt.so.13")


def machine(visit, until):
    for command in (
        ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"],
        [visit.options.bin / "mnist_train", "--version"],
    ):
        code, output, _ = visit.run(command, "machine.log", until=until)
        if code:
            visit.result(f"machine: {pathlib.Path(command[0]).name}", False, last_line(output))
        visit.say(f"      {'; '.join(output.splitlines()[:4])}")
    for library in LIBRARIES:
        if not any(loads(folder + library) for folder in ("", "/usr/local/cuda/lib64/")):
            visit.result(f"machine: {library}", False, "does not load")
    _, output, _ = visit.run(["ldd", visit.options.elf / "mnist_train"], "machine.log", until=until)
    for line in output.splitlines():
        if re.search(r"cudart|cudnn\.|cublas|nccl", line):
            visit.say(f"      {line.strip()}")
    code, output, _ = visit.run([sys.executable, "-c", LIMITS], "machine.log", until=until)
    for line in output.splitlines()[-6:] if code == 0 else [f"no limits of the machine: {last_line(output)}"]:
        visit.say(f"      {line}")


def loads(library):
    try:
        return ctypes.CDLL(library)
    except OSError:
        return None


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
    "machine": machine, "tests": tests, "speed": speed, "kernels": kernels, "switches": switches, "plans": plans,
    "bits": bits, "networks": networks, "sanitizer": sanitizer,
}  # fmt: skip


def records(visit, name):
    """Converts the dataset `name` to the records on which the phases train; without --mnist or --cifar10, makes records
    of noise."""
    source, target = getattr(visit.options, name), visit.work / f"{name}-records"
    try:
        if not source:
            source = visit.work / name
            visit.run([sys.executable, TESTS / "benchmarks/gpu_random_sets.py", name, source], "machine.log")
        command = [visit.options.bin / "tfrecord_convert", name, "--input", source, "--output", target]
        code, output, _ = visit.run(command, "machine.log", 120)
    except Deadline:
        code, output = 124, "stopped at the deadline"
    if code:
        visit.result(f"records of {name}", False, last_line(output))
    else:
        visit.data[name], visit.sets[name] = target / "train-*", source


def run(visit, name, phase, until):
    try:
        phase(visit, until)
    except Deadline:
        visit.result(name, False, "stopped at its deadline")
    except Exception as error:  # the other phases must still run
        visit.result(name, False, f"{type(error).__name__}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--elf", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--mnist", type=pathlib.Path, help="folder of the IDX files; without it, noise")
    parser.add_argument("--seconds", type=float, default=560, help="limit of the whole visit")
    parser.add_argument("--cifar10", type=pathlib.Path, help="folder of the binary version; without it, noise")
    parser.add_argument("--phases", default="machine,tests,pytorch,cpu,speed,kernels,switches,plans,bits")
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 2) - 4), help="tests at once")
    parser.add_argument("--early", default="0", help="values of CARILLON_EARLY_LAUNCH for the tests")
    parser.add_argument("--tests", default=".", help="regular expression: tests to run")
    parser.add_argument("--networks", default=".", help="regular expression: networks to run")
    parser.add_argument("--brief", action="store_true", help="networks: one step only")
    parser.add_argument("--profile", default=".", help="regular expression: networks of phase kernels")
    parser.add_argument("--switches", default=".", help="regular expression: what phase switches changes")
    parser.add_argument("--memcheck", type=int, default=0, help="failed tests that run again under memcheck")
    parser.add_argument("--batch", type=int, help="batch size of the phases speed, kernels, switches and pytorch")
    parser.add_argument("--steps", type=int, help="steps of these phases and of phase cpu")
    parser.add_argument("--sanitize", default="TowerOnAGpu", help="regular expression: tests of phase sanitizer")
    parser.add_argument("--tools", default="memcheck,racecheck,initcheck,synccheck")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    for name in ("bin", "elf", "out"):
        setattr(options, name, getattr(options, name).resolve())
    phases = options.phases.split(",")
    for phase in phases:
        if phase not in PHASES | BESIDE:
            parser.error(f"--phases: unknown phase '{phase}'")
    with tempfile.TemporaryDirectory(prefix="carillon-visit-") as work, concurrent.futures.ThreadPoolExecutor() as pool:
        visit = Visit(options, pathlib.Path(work))
        sets = [pool.submit(records, visit, name) for name in ("mnist", "cifar10") if not set(phases) <= set(NO_DATA)]
        beside = []
        for index, phase in enumerate(phases):
            if phase not in NO_DATA:
                concurrent.futures.wait(sets)
            began = time.monotonic()
            if phase in BESIDE:
                visit.say(f"\n{phase}: beside the phases below")
                beside.append(pool.submit(run, visit, phase, BESIDE[phase], began + visit.left()))
                continue
            share = visit.left() * SHARES[phase] / sum(SHARES.get(later, 0) for later in phases[index:])
            visit.say(f"\n{phase}: at most {share:.0f} s")
            run(visit, phase, PHASES[phase], began + share)
            visit.say(f"      {phase} took {time.monotonic() - began:.0f} s; {visit.left():.0f} s left")
        concurrent.futures.wait(beside)
        for name, theirs in visit.theirs.items():
            if ours := visit.ours.get(name):
                visit.say(f"{name}: Carillon {ours:,.0f}, PyTorch's best {theirs:,.0f} images/s, ratio {ours / theirs:.3f}")
        visit.say(f"\n{visit.passes} of {visit.passes + visit.failures} passed")
    sys.exit(visit.failures > 0)


if __name__ == "__main__":
    main()
