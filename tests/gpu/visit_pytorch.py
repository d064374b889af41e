"""Phase pytorch of gpu_visit.py: the speed of PyTorch on the GPU, measured in parallel with the phases after it.

Each network has its own process; three processes run at once. A process compiles on its CPU cores at low priority, and
waits for the GPU before it computes. The forms are steps in a CUDA graph, compiled or not, with autocast or with
weights in bf16.
"""

import argparse
import concurrent.futures
import re
import threading

from visit import DEVICE, GPU_CORES, kill, on
from visit_speed import batch_of

import gpu_vs_pytorch  # visit.py adds its folder to the import path

AT_ONCE = 3
STEPS = {"cifar10": 10, "mnist": 10}  # steps in one captured graph; other networks: 1
SECONDS = 1.0  # duration of one measurement
FORM_SECONDS = 300  # limit of one form, with its compilation
NAMES = ("vit_small_patch16_224", "convnext_tiny", "resnet50", "airbench94", "resnet18_cifar", "cifar10", "mnist")
LARGE = NAMES[:3]  # these networks are also measured with weights in bf16


def forms(name):
    """Returns pairs (form, precision), the most informative ones first."""
    if DEVICE == "cpu":
        return (("eager", "bf16"),)
    if name == "mnist":
        return (("compiled graph", "fp32"), ("graph", "fp32"))
    precisions = ("bf16", "bf16 weights") if name in LARGE else ("bf16",)
    return tuple((form, precision) for form in ("compiled graph", "graph") for precision in precisions)


def pytorch(visit, until):
    chosen = [name for name in NAMES if re.search(visit.options.networks, name)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for each in [pool.submit(_network, visit, name) for name in chosen]:
            try:
                each.result()
            except Exception as error:  # the other networks must still run
                visit.result("pytorch", False, f"{type(error).__name__}: {error}")


def _network(visit, name):
    batch = batch_of(visit, name)
    options = argparse.Namespace(set=name, data=visit.sets.get(name), device=DEVICE, seconds=SECONDS)
    lock = ["--lock", visit.gpu_lock] if DEVICE == "cuda" else []
    with (visit.options.out / f"pytorch-{name}.log").open("w") as log:
        peer = gpu_vs_pytorch.Peer(options, batch, ["nice", *on(GPU_CORES)], lock, log)
        try:
            for form, precision in forms(name):
                _form(visit, peer, name, batch, form, precision)
        finally:
            kill(peer.process.pid)
            peer.end()


def _form(visit, peer, name, batch, form, precision):
    steps = STEPS.get(name, 1) if "graph" in form else 1
    title = f"pytorch: {name}, batch {batch}, {form}, {precision}"
    if peer.process.poll() is not None or visit.left() < 10:
        visit.result(title, False, "not started in time" if peer.process.poll() is None else "its process has ended")
        return
    limit = threading.Timer(min(FORM_SECONDS, visit.left() - 5), kill, [peer.process.pid])
    limit.start()
    found = peer.measure(form, steps, precision)
    limit.cancel()
    if not found:
        visit.result(title, False, "failed or not finished in time")
        return
    rate, _ = found
    visit.result(title, True, f"{rate:,.0f} images/s, {batch / rate * 1e6:.1f} us a step")
    best = visit.theirs[name] = max(rate, visit.theirs.get(name, 0))
    if name in visit.ours:
        visit.say(f"      {name}: Carillon / PyTorch's best so far: {visit.ours[name] / best:.3f}")
