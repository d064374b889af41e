"""Phases speed and kernels of gpu_visit.py: the time of a step with the GPU to itself, and of each kernel (ncu)."""

import json
import re

from visit import DEVICE, Deadline, last_line
from visit_networks import ADAMW, NETWORKS, Network, command_of

import gpu_profile  # visit finds it

SPEEDS = (  # network, image size, batch size, precisions
    ("mnist", 28, 100, ("fp32", "tf32", "bf16")),
    ("mnist", 28, 8192, ("bf16",)),
    ("cifar10", 32, 128, ("fp32", "tf32", "bf16")),
    ("cifar10", 32, 1024, ("bf16",)),
    ("airbench94", 32, 1024, ("bf16",)),
    ("resnet18_cifar", 32, 128, ("bf16",)),
    ("resnet50", 224, 256, ("tf32", "bf16")),
    ("vit_small_patch16_224", 224, 256, ("bf16",)),
    ("convnext_tiny", 224, 256, ("bf16",)),
)


def speed(visit, until):
    for name, size, batch, precisions in SPEEDS:
        if not re.search(visit.options.networks, name):
            continue
        known = next((n for n in NETWORKS if n.name == name), Network(name, options=ADAMW))
        for precision in precisions:
            for variant, launch, options in _variants(name, batch, precision):
                title = f"{name} {size}, batch {batch}, {precision}{variant}"
                try:
                    _time(visit, until, known, size, batch, precision, launch, options, title)
                except Deadline:
                    visit.result(f"speed: {title}", False, "not started in time")


def _variants(name, batch, precision):
    """(what differs, value of CARILLON_EARLY_LAUNCH, options)"""
    yield "", "0", ()
    if (name, precision) in (("mnist", "fp32"), ("cifar10", "bf16")):
        yield ", early launch", "1", ()
    if name == "mnist" and batch == 100 and precision != "bf16":
        yield ", op by op", "0", ("--fused-step=false",)


def _time(visit, until, network, size, batch, precision, launch, options, title):
    large = size >= 224
    steps, every = (60, 10) if large else ((20000, 2000) if network.name == "mnist" and batch < 1000 else (2000, 200))
    if network.name.startswith(("resnet18", "airbench")):
        steps, every = 600, 60
    run = visit.directory("speed")
    more = ("--device", DEVICE, "--precision", precision, "--batch-size", batch, "--max-steps", steps, "--log-every", every,
            "--checkpoint-every", 0, "--log-device-placement", *options)  # fmt: skip
    code, output, took = visit.run(
        command_of(visit, network, run, *more, size=size), "speed.log", 60,
        more={"CARILLON_EARLY_LAUNCH": launch}, until=until,
    )  # fmt: skip
    lines = []
    if (run / "metrics.jsonl").exists():
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line and line["step"] >= every]
    if code or len(lines) < 2:
        visit.result(f"speed: {title}", False, f"{code}: {last_line(output)}", took)
        return
    rates = sorted((b["time"] - a["time"]) / (b["step"] - a["step"]) for a, b in zip(lines, lines[1:]))
    seconds = rates[len(rates) // 2]
    nodes = re.search(r"captured step: *(\d+)", output) or re.search(r"(\d+) nodes", output)
    memory = re.search(r"activations and their gradients: (\d+)", output)
    visit.result(
        f"speed: {title}", True,
        f"{seconds * 1e6:.1f} us a step ({rates[0] * 1e6:.1f} to {rates[-1] * 1e6:.1f}), {batch / seconds:,.0f} images/s, "
        f"nodes {nodes[1] if nodes else '?'}, activations {int(memory[1]) / 2**20 if memory else 0:.0f} MiB", took,
    )  # fmt: skip


def kernels(visit, until):
    for name, size, batch, precision in (
        ("mnist", 28, 100, "fp32"), ("cifar10", 32, 128, "bf16"), ("airbench94", 32, 1024, "bf16"),
        ("resnet18_cifar", 32, 128, "bf16"), ("resnet50", 224, 256, "bf16"), ("vit_small_patch16_224", 224, 256, "bf16"),
        ("convnext_tiny", 224, 256, "bf16"),
    ):  # fmt: skip
        if not re.search(visit.options.profile, name):
            continue
        known = next((n for n in NETWORKS if n.name == name), Network(name, options=ADAMW))
        table = visit.work / f"{name}.csv"
        more = ("--device", DEVICE, "--precision", precision, "--batch-size", batch, "--max-steps", 3, "--log-every", 0,
                "--checkpoint-every", 0, "--cuda-graph=false")  # fmt: skip
        command = ["ncu", "--clock-control", "none", "--csv", "--log-file", table, "--metrics", "gpu__time_duration.sum",
                   *command_of(visit, known, visit.directory("profile"), *more, size=size)]  # fmt: skip
        try:
            code, output, took = visit.run(command, "kernels.log", 90, until=until)
        except Deadline:
            visit.result(f"kernels: {name}", False, "not started in time")
            continue
        found = gpu_profile.read(table) if table.exists() else {}
        lines = list(gpu_profile.table(found, 3)) if found else []
        visit.say(f"\n# {name} {size}, batch {batch}, {precision}\n\n" + "\n".join(lines), "kernels.md")
        visit.result(f"kernels: {name}", code == 0 and bool(lines), lines[-1] if lines else f"{code}: {last_line(output)}", took)
