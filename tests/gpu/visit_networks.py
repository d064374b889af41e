"""Phase networks of gpu_visit.py: compares training on the GPU with training on the CPU, and runs on the GPU with each
other.

GPU and CPU train one step and ten steps in fp32 from the same initial checkpoint; errors are relative to the distance
that a variable travelled. On the GPU, a second run, a run with eager steps, and a run that is stopped and resumes must
have the same bits as the first run. Phase bits checks only the bits, in bf16 and fp32, over 20 steps.
"""

import concurrent.futures
import re
from dataclasses import dataclass

import numpy as np
from visit import DEVICE, GPU_CORES, Deadline, last_line

from hdf5 import load  # visit.py adds their folder to the import path
from programs import checkpoint, same_bits

LIMIT = 1e-3  # largest error, relative to the distance that a variable travelled
LARGEST_FLOOR = 0.1  # if one rounding has a larger effect, the network cannot be compared
REDUCED_LIMITS = {"tf32": 0.5, "bf16": 0.8}  # after one step, for the worst variable; bf16 on the CPU: up to 0.4
STEPS, BITS_STEPS = 10, 20


@dataclass(frozen=True)
class Network:
    """A network, its image size, and the batches of its checks."""

    name: str
    size: int = 32
    parity_batch: int = 16
    speed_batch: int = 128
    options: tuple = ()
    classes: int = 10
    program: str = "image_train"


NESTEROV = ("--optimizer", "nesterov", "--momentum", 0.9, "--learning-rate", 0.01)
ADAMW = ("--optimizer", "adamw", "--learning-rate", 0.0001)
MUON = ("--optimizer", "muon", "--learning-rate", 0.01)
NETWORKS = (
    Network("mnist", 28, 96, 100, ("--learning-rate", 0.05), program="mnist_train"),
    Network("lenet", 28, 32, 128, ("--learning-rate", 0.01), program="mnist_train"),
    Network("cifar10", 32, 32, 128, ("--learning-rate", 0.05), program="cifar10_train"),
    Network("resnet9", 32, 32, 512, NESTEROV, program="cifar10_train"),
    Network("airbench94", 32, 64, 1024, NESTEROV, program="cifar10_train"),
    Network("airbench94", 32, 64, 1024, MUON, program="cifar10_train"),
    Network("airbench96", 32, 64, 1024, NESTEROV, program="cifar10_train"),
    Network("resnet18_cifar", 32, 32, 128, NESTEROV),
    Network("resnet18", 64, 16, 256, NESTEROV),
    Network("resnet50", 64, 16, 256, NESTEROV),
    Network("vgg7", 28, 16, 128, NESTEROV, program="mnist_train"),
    Network("vit_tiny_patch16_224", 64, 16, 256, ADAMW),
    Network("convnext_tiny", 64, 16, 256, ADAMW),
)
BITS = (
    Network("vit_small_patch16_224", 224, 16, 256, ADAMW),
    *(network for network in NETWORKS if network.name in ("convnext_tiny", "resnet50", "airbench94", "mnist")),
)


def command_of(visit, network, train_dir, *more, size=None):
    data = ["--data", visit.data.get(network.program.removesuffix("_train"), "synthetic")]
    model = ["--model", network.name] if network.name not in ("mnist", "cifar10") else []
    extra = []
    if network.program == "image_train":
        data = ["--data", "synthetic", "--classes", network.classes]
        # The schedule must be constant, because a cosine schedule would depend on --max-steps.
        extra = ["--image-size", size or network.size, "--schedule", "constant"]
    elif network.program == "cifar10_train":
        extra = ["--distort=false"]
    else:
        extra = ["--pixel-scale", 1 / 255]
    return [
        visit.options.elf / network.program, *data, "--train-dir", train_dir, *model, *extra, *network.options,
        "--summary-every", 0, *more,
    ]  # fmt: skip


def networks(visit, until):
    chosen = [network for network in NETWORKS if re.search(visit.options.networks, network.name)]
    if not chosen:
        visit.result("networks", False, f"none matches {visit.options.networks}")
    with concurrent.futures.ThreadPoolExecutor(visit.options.jobs // 2 or 1) as pool:
        for each in [pool.submit(NetworkChecks(visit, network, until).run) for network in chosen]:
            try:
                each.result()
            except (OSError, KeyError, ValueError) as error:
                visit.result("networks", False, f"{type(error).__name__}: {error}")


def bits(visit, until):
    chosen = [network for network in BITS if re.search(visit.options.networks, network.name)]
    with visit.gpu(), concurrent.futures.ThreadPoolExecutor(len(GPU_CORES)) as pool:
        for precision in ("bf16", "fp32"):
            for network in chosen:
                pool.submit(NetworkChecks(visit, network, until, BITS_STEPS).run_bits, precision)


class NetworkChecks:
    """Runs the checks of one network."""

    def __init__(self, visit, network, until, steps=STEPS):
        self.visit, self.network, self.until, self.steps = visit, network, until, steps
        self.name = network.name + (f", {network.options[1]}" if network.options[0] == "--optimizer" else "")
        self.initial = None  # train directory of the initial checkpoint
        self.rounded = None  # train directory of the initial checkpoint with each weight rounded once

    def run(self):
        try:
            initial = self._train("initial values", "cpu", steps=0)
            if not initial:
                return
            self.initial = initial.parent
            self.rounded = self._round_weights()
            self._one_step()
            if not self.visit.options.brief:
                self._ten_steps()
        except Deadline:
            self.visit.result(self.name, False, "not finished in time")

    def run_bits(self, precision):
        try:
            self._equal_bits(precision)
        except Deadline:
            self.visit.result(f"{self.name}: equal bits in {precision}", False, "not finished in time")
        except (OSError, KeyError, ValueError) as error:
            self.visit.result(self.name, False, f"{type(error).__name__}: {error}")

    def _one_step(self):
        cpu = self._train("one step on the CPU", "cpu", steps=1)
        rounded = self._train("one step on the CPU", "cpu", steps=1, start=self.rounded)
        self._near("one step in fp32", self._train("one step", DEVICE, steps=1), cpu, rounded)
        for precision, limit in REDUCED_LIMITS.items():
            found = self._train(precision, DEVICE, steps=1, precision=precision)
            self._near(f"one step in {precision}", found, cpu, limit=limit)

    def _equal_bits(self, precision):
        """Checks that runs have equal bits. Returns the last checkpoint of a run with captured steps."""
        gpu = self._train("captured", DEVICE, precision=precision)
        self._same(f"two runs in {precision}", self._train("again", DEVICE, precision=precision), gpu)
        eager = self._train("eager", DEVICE, "--cuda-graph=false", precision=precision)
        self._same(f"captured equals eager in {precision}", eager, gpu)
        run = self.visit.directory("resumed")
        if self._train("stopped", DEVICE, train_dir=run, steps=self.steps // 2, precision=precision):
            resumed = self._train("resumed", DEVICE, train_dir=run, precision=precision)
            self._same(f"stopped and resumed in {precision}", resumed, gpu)
        return gpu

    def _ten_steps(self):
        gpu = self._equal_bits("fp32")
        cpu = self._train("on the CPU", "cpu")
        rounded = self._train("on the CPU", "cpu", start=self.rounded)
        self._near(f"{STEPS} steps in fp32", gpu, cpu, rounded)

    def _train(self, label, device, *more, train_dir=None, steps=None, precision="fp32", start=None):
        """Returns the last checkpoint of a training. If the training failed, reports the failure and returns None."""
        steps = steps or self.steps
        run = train_dir or self.visit.directory("network")
        start = start or self.initial
        source = ["--init-from", checkpoint(start, 0)] if start and not run.exists() else []
        command = command_of(
            self.visit, self.network, run, *source, "--device", device, "--batch-size", self.network.parity_batch,
            "--max-steps", steps, "--log-every", 5, "--threads", 3, "--precision", precision, *more,
        )  # fmt: skip
        cores = () if device == "cpu" else GPU_CORES
        code, output, took = self.visit.run(command, "networks.log", 120, until=self.until, cores=cores)
        if code:
            self.visit.result(f"{self.name}: {label}", False, f"{code}: {last_line(output)}", took)
            return None
        return checkpoint(run, steps)

    def _round_weights(self):
        source, target = checkpoint(self.initial, 0), self.visit.directory("rounded")
        target.mkdir()
        generator = np.random.default_rng(1)
        arrays = {
            key: (value * (1 + 6e-8 * generator.choice([-1, 1], value.shape))).astype(np.float32)
            for key, value in load(source).items()
        }
        np.savez(target / "arrays.npz", **arrays)
        tool = [self.visit.options.bin / "checkpoint_tool", "import-npz", "--output", checkpoint(target, 0)]
        self.visit.run([*tool, source, target / "arrays.npz"], "networks.log", until=self.until)
        return target

    def _near(self, label, found, expected, rounded=None, limit=LIMIT):
        """Reports the distance of `found` from `expected`. Some networks amplify a rounding of the weights. So the
        limit is at least 4 times the distance that one rounding of the weights causes on the CPU (`rounded`)."""
        if not found or not expected:
            return
        begin = load(checkpoint(self.initial, 0))
        distance, where = farthest(load(found), load(expected), begin)
        detail = f"{distance:.1e} of the distance travelled ({where})"
        if rounded:
            floor, _ = farthest(load(rounded), load(expected), begin)
            limit = max(limit, 4 * floor)
            detail += f"; CPU after one rounding of the weights: {floor:.1e}"
            if LARGEST_FLOOR < floor < np.inf:
                self.visit.say(f"      {self.name}: {label} is not comparable with the CPU: {detail}")
                return
            if not np.isfinite(floor):
                limit = 0.0
        self.visit.result(f"{self.name}: {label}, as on the CPU", distance <= limit, detail)

    def _same(self, label, found, expected):
        if found and expected:
            difference = same_bits(found, expected)
            detail = f"differ: {difference}"[:90] if difference else "bit for bit"
            self.visit.result(f"{self.name}: {label}", not difference, detail)


def farthest(found, expected, start):
    """Returns (distance, name) of the variable with the largest distance between `found` and `expected`, relative to
    the distance that the variable travelled from `start`. Some variables hardly travel, such as biases without
    influence. For these variables, the distance is relative to a thousandth of the usual travelled distance."""
    names = [key for key in expected if key.startswith("variables/") and (expected[key] != start[key]).any()]
    travelled = {key: np.linalg.norm(np.float64(expected[key]) - start[key]) for key in names}
    usual = np.sqrt(sum(way**2 for way in travelled.values()) / sum(expected[key].size for key in names))
    errors = {}
    for key in names:
        least = 1e-3 * usual * np.sqrt(expected[key].size)
        error = np.linalg.norm(np.float64(found[key]) - expected[key]) / max(travelled[key], least)
        errors[key] = error if np.isfinite(error) else np.inf
    where = max(errors, key=errors.get)
    return float(errors[where]), where.removeprefix("variables/")
