"""Phases speed, switches and kernels of gpu_visit.py: the time of a training step, and of each of its kernels, while no
other process uses the GPU.

Phase speed trains the same networks as gpu_vs_pytorch.py, in bf16 (MNIST in fp32). Phase switches repeats this with one
optimisation switched off.
"""

import json
import math
import re
import time

from visit import DEVICE, GPU_CORES, Deadline, last_line

import gpu_profile  # visit.py adds its folder to the import path
import gpu_vs_pytorch

SPEEDS = {  # number of steps; image and batch sizes are those of gpu_vs_pytorch.py
    "vit_small_patch16_224": 40,
    "resnet50": 40,
    "convnext_tiny": 40,
    "airbench94": 400,
    "resnet18_cifar": 400,
    "cifar10": 4000,
    "mnist": 20000,
}
OFF = "CARILLON_GPU_OFF"  # if unset, bias_gradient_epilogue is off (src/device/cuda_backend.h)
SWITCHES = (  # network, variable, value
    ("vit_small_patch16_224", OFF, "fused_attention"),
    ("vit_small_patch16_224", OFF, "none"),
    ("vit_small_patch16_224", OFF, "patch_products"),
    ("vit_small_patch16_224", OFF, "shared_gradients"),
    ("vit_small_patch16_224", OFF, "fused_additions"),
    ("resnet50", OFF, "pointwise_products"),
    ("resnet50", OFF, "shared_gradients"),
    ("convnext_tiny", OFF, "none"),
    ("convnext_tiny", OFF, "patch_products"),
    ("convnext_tiny", OFF, "shared_gradients"),
    ("convnext_tiny", OFF, "fused_additions"),
    ("airbench94", OFF, "measured_plans"),
    ("resnet18_cifar", OFF, "measured_plans"),
    ("resnet18_cifar", "CARILLON_EARLY_LAUNCH", "1"),
    ("cifar10", "CARILLON_EARLY_LAUNCH", "1"),
    ("mnist", "CARILLON_EARLY_LAUNCH", "1"),
)
PROFILES = ("vit_small_patch16_224", "resnet50", "convnext_tiny", "airbench94")
ROWS = 14  # rows of each table of kernels in the summary; kernels.md has all rows


def speed(visit, until):
    for name, steps in SPEEDS.items():
        if re.search(visit.options.networks, name):
            _time(visit, until, name, steps)


def switches(visit, until):
    for name, variable, value in SWITCHES:
        if re.search(visit.options.networks, name) and re.search(visit.options.switches, value):
            program = command_of(visit, name, "")[0]
            if variable == OFF and value != "none" and value.encode() not in program.read_bytes():
                visit.say(f"      speed: {name}: this build has no {value}")
                continue
            if name not in visit.steps:
                _time(visit, until, name, SPEEDS[name])
            if variable == OFF and value != "none":
                value += ",bias_gradient_epilogue"
            _time(visit, until, name, SPEEDS[name], f"{variable}={value}", {variable: value})


def batch_of(visit, name):
    return visit.options.batch or (gpu_vs_pytorch.BATCHES.get(name) or [gpu_vs_pytorch.NETWORKS[name][1]])[0]


def command_of(visit, name, train_dir, *more):
    precision = "fp32" if name == "mnist" else "bf16"
    data = visit.data.get(name, "synthetic")
    return [
        *gpu_vs_pytorch.our_program(name, visit.options.elf, data), "--train-dir", train_dir, "--device", DEVICE,
        "--precision", precision, "--batch-size", batch_of(visit, name), "--summary-every", 0, "--checkpoint-every", 0, *more,
    ]  # fmt: skip


def _time(visit, until, name, steps, variant="", environment=()):
    title = f"{name}, batch {batch_of(visit, name)}" + (f", {variant}" if variant else "")
    steps = visit.options.steps or steps
    every = max(1, steps // 8)
    run = visit.directory("speed")
    more = ("--max-steps", steps, "--log-every", every, "--log-device-placement")
    try:
        with visit.gpu():
            code, output, took = visit.run(
                command_of(visit, name, run, *more), "speed.log", more=environment, until=until, cores=GPU_CORES
            )
    except Deadline:
        visit.result(f"speed: {title}", False, "not started in time")
        return
    lines = []
    if (run / "metrics.jsonl").exists():
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line and line["step"] >= every]
    if code or len(lines) < 2:
        visit.result(f"speed: {title}", False, f"{code}: {last_line(output)}", took)
        return
    rates = sorted((b["time"] - a["time"]) / (b["step"] - a["step"]) for a, b in zip(lines, lines[1:]))
    seconds = rates[len(rates) // 2]
    found = re.search(r"captured step: *(\d+)", output)
    nodes = int(found[1]) if found else 0
    detail = (
        f"{seconds * 1e6:.1f} us a step ({rates[0] * 1e6:.1f} to {rates[-1] * 1e6:.1f}), "
        f"{batch_of(visit, name) / seconds:,.0f} images/s, {nodes} nodes"
    )
    if not variant:
        visit.ours[name], visit.steps[name] = batch_of(visit, name) / seconds, (seconds, nodes)
    elif name in visit.steps:
        detail += f", {seconds / visit.steps[name][0]:.3f} times the default's time"
    visit.result(f"speed: {title}", True, detail, took)


def kernels(visit, until):
    for name in PROFILES:
        if re.search(visit.options.networks, name) and re.search(visit.options.profile, name):
            if name not in visit.steps:  # the number of launches per step is not known yet
                _time(visit, until, name, SPEEDS[name])
            try:
                _profile(visit, until, name)
            except Deadline:
                visit.result(f"kernels: {name}", False, "not started in time")


def _profile(visit, until, name):
    """Profiles a little more than one step, after the start-up and two steps. Kernels are launched one by one, without
    CUDA graphs."""
    _, nodes = visit.steps.get(name, (0, 0))
    log = visit.options.out / f"ncu-{name}.csv"
    window = ["--launch-skip", math.ceil(2.2 * nodes), "--launch-count", math.ceil(1.25 * nodes) + 10] if nodes else []
    metrics = ",".join((gpu_profile.TIME, gpu_profile.READ, gpu_profile.WRITE))
    more = ("--max-steps", 6 if nodes else 2, "--log-every", 0, "--cuda-graph=false")
    command = [
        "ncu", "--clock-control", "none", "--cache-control", "none", *window, "--print-units", "base",
        "--print-kernel-base", "demangled", "--csv", "--log-file", log,
        "--metrics", metrics,
        *command_of(visit, name, visit.directory("profile"), *more),
    ]  # fmt: skip
    with visit.gpu():
        code, output, took = visit.run(command, "kernels.log", 60, until=until, cores=GPU_CORES)
    launches = gpu_profile.read(log) if log.exists() else []
    step = gpu_profile.one_step(launches)
    lines = list(gpu_profile.table(step or launches))
    visit.say(f"\n# {name}, batch {batch_of(visit, name)}\n\n" + "\n".join(lines), "kernels.md")
    good = bool(step) and code == 0
    detail = lines[-1] if good else f"{code}: {len(launches)} launches; {last_line(output)}"
    visit.result(f"kernels: {name}", good, detail, took)
    for line in lines[: ROWS + 2] if launches else []:
        visit.say(f"      {line}")


def plans(visit, until):
    """Times cuDNN's plans if the program time_conv_plans_gpu exists. tests/gpu/measured_plans.py reads the output."""
    for program in visit.options.elf.glob("time_conv_plans_gpu"):
        with visit.gpu():
            seconds = max(1, int(until - time.monotonic()) - 10)
            code, output, took = visit.run(
                [program, "--seconds", seconds], "plans.log", seconds + 10, until=until, cores=GPU_CORES
            )
        (visit.options.out / f"{program.name}.txt").write_text(output)
        visit.result(f"plans: {program.name}", code == 0, f"{code}: {last_line(output)}", took)
        for line in output.splitlines()[-ROWS:]:
            visit.say(f"      {line[:180]}")
