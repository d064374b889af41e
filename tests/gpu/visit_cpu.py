"""Phase cpu of gpu_visit.py: the speed of training on the CPU in bf16, compared with PyTorch's autocast, and how it
scales over ranks.

Runs in parallel with the phases after it, one measurement at a time, on cores that the GPU's phases do not use.
The networks and options are the same as in gpu_vs_pytorch.py. PyTorch uses channels_last and the fused optimizer, and
malloc keeps freed memory.
"""

import json
import re
import sys
from pathlib import Path

from visit import CPU_CORES, Deadline, last_line

import gpu_vs_pytorch  # visit.py adds its folder to the import path
import measure
from cifar10_vs_pytorch import HUGE_PAGES, KEEP_MEMORY

WORKERS = Path(gpu_vs_pytorch.__file__).parent
SECONDS = 3.0  # duration of one measurement
NETWORKS = {  # batch size; images per second that one core with AMX may reach
    "airbench94": (128, 800),
    "resnet18_cifar": (128, 130),
    "resnet50": (16, 10),
    "cifar10": (128, 4000),
}
CORES, ROUNDS = (2, 4, 8, 12, 1), 2  # two rounds for the first number of cores, one for the others
RANKS = (1, 2, 4, 8, 12)
# Precision, batch size, images per second of one rank.
SCALED = {"mnist": ("fp32", 100, 80000), "cifar10": ("bf16", 128, 4000)}


def cpu(visit, until):
    visit.say(f"      phase cpu uses cores {CPU_CORES[0]} to {CPU_CORES[-1]}")
    for line in list(measure.conditions(ROUNDS))[:2]:
        visit.say(f"      {line}")
    chosen = [name for name in NETWORKS if re.search(visit.options.networks, name)]
    _amx_tests(visit)
    for cores in CORES:
        if cores <= len(CPU_CORES):
            for name in chosen:
                _compare(visit, name, CPU_CORES[:cores], ROUNDS if cores == CORES[0] else 1)
        if cores == CORES[0]:
            for name in SCALED:
                if re.search(visit.options.networks, name):
                    _scale(visit, name)
    for name in chosen:
        _compare(visit, name, CPU_CORES[: CORES[0]], 1, ("--compile",))


def _amx_tests(visit):
    program = visit.options.elf / "kernels_test"
    if program.exists():
        command = [program, "--gtest_filter=*Bf16Tiles*:AmxTiles*", "--gtest_brief=1"]
        code, output, took = _run(visit, command, CPU_CORES)
        visit.result("cpu: tests of AMX's products", code == 0 and "PASSED" in output, last_line(output), took)


def _run(visit, command, cores, seconds=60, more=()):
    return visit.run(command, "cpu.log", seconds, more, cores=cores)


def _steps(rate, batch, seconds=SECONDS):
    return max(10, int(rate * seconds / batch))


def _ours(visit, name, cores):
    batch, rate = NETWORKS[name]
    run = visit.directory("cpu")
    steps = visit.options.steps or _steps(rate * len(cores), batch)
    command = [
        *gpu_vs_pytorch.our_program(name, visit.options.elf, visit.data.get(name, "synthetic")), "--train-dir", run,
        "--device", "cpu", "--precision", "bf16", "--threads", len(cores), "--batch-size", batch, "--max-steps", steps,
        "--log-every", max(1, steps // 20), "--summary-every", 0, "--checkpoint-every", 0,
    ]  # fmt: skip
    code, output, _ = _run(visit, command, cores)
    return (code, output, None) if code else (0, "", measure.training_rate(run, batch, max(1, steps // 10)))


def _theirs(visit, name, cores, more):
    batch, _ = NETWORKS[name]
    if name == "cifar10":
        lrn = ["--lrn", "band"] if "--compile" in more else []
        worker = ["torch_cifar_worker.py", "--data", visit.sets[name], *lrn]
    else:
        size, _, _ = gpu_vs_pytorch.NETWORKS[name]
        worker = ["torch_synthetic_worker.py", "--data", ".", "--network", name, "--size", size, "--classes", 10]
    command = [
        sys.executable, WORKERS / worker[0], *worker[1:], "--batch", batch, "--seconds", SECONDS, "--warm-up", 2,
        "--threads", len(cores), "--optimizer", "fused", "--autocast", *more,
    ]  # fmt: skip
    code, output, _ = _run(visit, command, cores, 120 if more else 60, KEEP_MEMORY | HUGE_PAGES)
    if code:
        return code, output, None
    answer = next(line for line in output.splitlines() if line.startswith("{"))
    return 0, "", json.loads(answer)["examples_per_second"]


def _compare(visit, name, cores, rounds, more=()):
    title = f"cpu: {name}, {len(cores)} cores{', compiled' if more else ''}"
    found = {"Carillon": [], "PyTorch": []}
    try:
        for _ in range(rounds):
            for side, measured in (
                ("Carillon", lambda: _ours(visit, name, cores)),
                ("PyTorch", lambda: _theirs(visit, name, cores, more)),
            ):
                code, output, rate = measured()
                if rate is None:
                    visit.result(f"{title}, {side}", False, f"{code}: {last_line(output)}")
                else:
                    found[side].append(rate)
    except Deadline:
        visit.say(f"      {title}: not finished in time")
    except (SystemExit, ValueError, KeyError, StopIteration) as error:
        visit.result(title, False, str(error))
    if all(found.values()):
        ours, theirs = (sum(rates) / len(rates) for rates in found.values())
        rates = "; ".join(f"{side} {' and '.join(f'{rate:,.1f}' for rate in rates)}" for side, rates in found.items())
        visit.result(title, True, f"{rates} images/s; ratio {ours / theirs:.3f}")


def _scale(visit, name):
    """Measures weak scaling: each rank has one thread and one core."""
    precision, batch, rate = SCALED[name]
    one = None
    for ranks in RANKS:
        if ranks > len(CPU_CORES):
            continue
        run = visit.directory("scale")
        steps = visit.options.steps or _steps(rate, batch)
        pinned = f"list=({' '.join(map(str, CPU_CORES))}); exec taskset -c ${{list[OMPI_COMM_WORLD_LOCAL_RANK]}} \"$@\""
        mpirun = visit.options.bin / "mpirun"
        command = [
            mpirun if mpirun.exists() else "mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none",
            "bash", "-c", pinned, "bash",
            *gpu_vs_pytorch.our_program(name, visit.options.elf, visit.data.get(name, "synthetic")), "--train-dir", run,
            "--device", "cpu", "--precision", precision, "--threads", 1, "--batch-size", batch, "--max-steps", steps,
            "--log-every", max(1, steps // 20), "--summary-every", 0, "--checkpoint-every", 0,
        ]  # fmt: skip
        title = f"cpu: {name} in {precision}, batch {batch} a rank, {ranks} ranks"
        try:
            code, output, took = _run(visit, command, CPU_CORES)
            if code:
                visit.result(title, False, f"{code}: {last_line(output)}", took)
                continue
            found = measure.training_rate(run, batch * ranks, max(1, steps // 10))
            one = one or found / ranks
            visit.result(title, True, f"{found:,.0f} images/s, {found / ranks / one:.2f} of {ranks} times one rank", took)
        except Deadline:
            visit.say(f"      {title}: not started in time")
        except (SystemExit, ValueError) as error:
            visit.result(title, False, str(error))
