"""Compares the accuracy of `carillon train FOLDER --minutes M` with the accuracy of PyTorch networks that train for the
same processor time.

  python tests/benchmarks/first_hour.py --carillon build/bin/carillon --minutes 5 --data debian=FOLDER cifar=FOLDER

A FOLDER has train/CLASS and test/CLASS: debian_pictures.py --hold-out 20 and cifar10_pictures.py --test 2000 write such
folders. Each round runs Carillon from nothing (new run and data directories), then each peer (torch_pictures_worker.py)
with the processor time that Carillon used. Carillon's time covers everything: conversion, training, evaluations. The
peers' time covers decoding and training only. Accuracies are measured on test/. Without --carillon, --cpu-seconds is
the budget. Prints Markdown. Needs an idle machine and a Python with torch and torchvision.
"""

import argparse
import importlib.metadata
import json
import pathlib
import re
import resource
import statistics
import sys
import tempfile
import time

import measure
from cifar10_vs_pytorch import KEEP_MEMORY

WORKER = pathlib.Path(__file__).resolve().parent / "torch_pictures_worker.py"
OURS = "Carillon"
PRECISION = re.compile(r"precision @ 1 = ([0-9.]+)")
# Carillon is compared with these networks in PyTorch: torchvision's resnet18, and small networks. Each has its options
# of torch_pictures_worker.py.
PEERS = {
    "resnet18, 64 px": ("--network", "resnet18", "--size", 64),
    "resnet18, 128 px": ("--network", "resnet18", "--size", 128),
    # This network uses float32, because it is faster than bf16 for this network.
    "mobilenet_v3_small, 64 px": ("--network", "mobilenet_v3_small", "--size", 64, "--fp32"),
    "ResNet-9, 32 px": ("--network", "resnet9", "--size", 32),
    "ResNet-9 of half width, 32 px": ("--network", "resnet9_half", "--size", 32),
    "ResNet-9 of half width, 64 px": ("--network", "resnet9_half", "--size", 64),
    "airbench94, 32 px": ("--network", "airbench94", "--size", 32, "--learning-rate", 0.2),
    "airbench94, 64 px": ("--network", "airbench94", "--size", 64, "--learning-rate", 0.2),
    "plain, 32 px": ("--network", "plain", "--size", 32),
    "plain, 64 px": ("--network", "plain", "--size", 64),
    # These are the peers for `--ours --from FILE.onnx`. They start from the same weights, which were trained on ImageNet.
    "EfficientNet-Lite0, 224 px": (
        "--network", "efficientnet_lite0", "--size", 224, "--batch", 16, "--head-share", 0.3, "--learning-rate", 0.001,
        "--fp32"),
    "EfficientNet-Lite0, 128 px, bf16": (
        "--network", "efficientnet_lite0", "--size", 128, "--batch", 16, "--head-share", 0.3, "--learning-rate", 0.0003,
        "--optimizer", "adamw"),
}  # fmt: skip


def processor_seconds():
    """Returns the processor time of all child processes that have ended, and of their children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_ours(options, folder, timeout):
    """Runs Carillon once, with new run and data directories. Returns {accuracy, cpu_seconds, wall_seconds}."""
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        command = [
            options.carillon, "train", folder, "--minutes", options.minutes, "--train-dir", f"{work}/run",
            "--data-dir", f"{work}/data", *options.ours,
        ]  # fmt: skip
        before, started = processor_seconds(), time.monotonic()
        output, _ = measure.run(command, timeout=timeout)
        found = PRECISION.findall(output)
        if not found:
            sys.exit(f"no line 'precision @ 1 = ...' from: {' '.join(map(str, command))}\n{output[-2000:]}")
        return {
            "accuracy": float(found[-1]),
            "cpu_seconds": processor_seconds() - before,
            "wall_seconds": time.monotonic() - started,
        }


def run_peer(options, folder, flags, seed, budget, timeout):
    command = [
        sys.executable, WORKER, "--data", folder, *flags, "--cpu-seconds", f"{budget:.1f}",
        "--threads", options.threads, "--seed", seed,
    ]  # fmt: skip
    output, _ = measure.run(command, KEEP_MEMORY, timeout=timeout)
    return json.loads(output.splitlines()[-1])


def rows(name, found):
    """Yields Markdown lines of one dataset. found: {program: [result per round]}."""
    for program, results in found.items():
        if not results:
            yield f"| {name} | {program} | failed | - | - | - | - |"
            continue
        accuracies = [result["accuracy"] for result in results]
        medians = [statistics.median(result[key] for result in results) for key in ("cpu_seconds", "wall_seconds")]
        images = f"{statistics.median(r['images'] for r in results):,.0f}" if "images" in results[0] else "-"
        spread = f"{min(accuracies):.3f} to {max(accuracies):.3f}"
        cells = (name, program, f"{statistics.median(accuracies):.3f}", spread, images, *(f"{m:,.0f}" for m in medians))
        yield "| " + " | ".join(cells) + " |"


def verdict(name, found):
    """Yields Carillon's accuracy minus the accuracy of resnet18 at its best size, and minus the accuracy of the best
    other peer."""
    medians = {
        program: statistics.median(result["accuracy"] for result in results)
        for program, results in found.items()
        if results
    }
    if OURS not in medians:
        return
    large = {program: value for program, value in medians.items() if program.startswith("resnet18")}
    small = {program: value for program, value in medians.items() if program != OURS and program not in large}
    for group in filter(None, (large, small)):
        best = max(group, key=group.get)
        points = 100 * (medians[OURS] - group[best])
        yield f"{name}: Carillon {medians[OURS]:.3f}, PyTorch {best} {group[best]:.3f}: **{points:+.1f} points**"


def attempt(program, run):
    """Returns the result of a run. If the run fails, prints a message and returns None: a failure must not lose the
    other results."""
    try:
        result = run()
    except SystemExit as error:
        print(f"{program} failed: {error}", file=sys.stderr, flush=True)
        return None
    print(f"{program}: {json.dumps(result)}", file=sys.stderr, flush=True)
    return result


def compare(options, name, folder):
    """Returns {program: [result per round]}."""
    found = {OURS: []} if options.carillon else {}
    found |= {peer: [] for peer in options.peers}
    for index in range(options.rounds):
        budget = options.cpu_seconds
        if options.carillon:
            result = attempt(f"{name}: {OURS}", lambda: run_ours(options, folder, 3 * 60 * options.minutes + 600))
            if result:
                found[OURS].append(result)
                budget = result["cpu_seconds"]
        if budget is None:
            print(f"{name}: no peers without a processor time; --cpu-seconds sets one", file=sys.stderr)
            continue
        for peer in options.peers:
            timeout = 3 * budget + 600
            result = attempt(
                f"{name}: {peer}", lambda: run_peer(options, folder, PEERS[peer], index + 1, budget, timeout)
            )
            if result:
                found[peer].append(result)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carillon", type=pathlib.Path, help="our program; without it only the peers run")
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=FOLDER", help="sets to train on")
    parser.add_argument("--minutes", type=float, default=5, help="carillon's budget of wall time")
    parser.add_argument("--cpu-seconds", type=float, help="budget of the peers when there is no result of Carillon")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS), metavar="NAME")
    parser.add_argument("--ours", nargs=argparse.REMAINDER, default=[], help="last: more options for carillon train")
    parser.add_argument("--threads", type=int, default=1, help="threads of a peer")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each configuration, with different seeds")
    parser.add_argument("--work", type=pathlib.Path, help="folder for temporary files")
    options = parser.parse_args()
    if not options.carillon and options.cpu_seconds is None:
        parser.error("--cpu-seconds is required without --carillon")
    sets = dict(item.partition("=")[::2] for item in options.data)
    for name, folder in sets.items():
        if not all((pathlib.Path(folder) / split).is_dir() for split in ("train", "test")):
            parser.error(f"--data: {name}: {folder or 'no folder'} has no train/ and test/")
    versions = {package: importlib.metadata.version(package) for package in ("torch", "torchvision")}
    print("\n".join(measure.conditions(options.rounds, **versions)), flush=True)
    found = {name: compare(options, name, pathlib.Path(folder)) for name, folder in sets.items()}
    print("\n| set | program | accuracy (median) | lowest to highest | images | processor s | wall s |")
    print("|---|---|---|---|---|---|---|")
    for name, results in found.items():
        print("\n".join(rows(name, results)))
    for line in (line for name, results in found.items() for line in verdict(name, results)):
        print(f"\n{line}")
    if any(not runs for results in found.values() for runs in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
