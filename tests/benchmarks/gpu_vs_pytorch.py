"""Compares the training speed of Carillon's programs and PyTorch on one GPU, for the whole training loop.

  python tests/benchmarks/gpu_vs_pytorch.py mnist --bin build/bin --data DIRECTORY_OF_IDX_FILES
  python tests/benchmarks/gpu_vs_pytorch.py cifar10 --bin build/bin --data FOLDER_OF_THE_BINARY_VERSION --batches 128
  python tests/benchmarks/gpu_vs_pytorch.py resnet50 --bin build/bin --precisions bf16

mnist and cifar10 train on the data sets of these names; the other networks train on noise.

Carillon and PyTorch do the same work on data in GPU memory (see torch_gpu_loop.py for PyTorch's forms). Carillon writes
no summaries. For each batch size, each round runs every configuration once: each of Carillon's in a new process, all of
PyTorch's in one process that keeps its compiled code. The result is the median over rounds. The ratios compare the best
configurations of all precisions, and of each precision. Prints Markdown, and writes it to --out after each batch size.
Needs a Python with torch.
"""

import argparse
import functools
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import measure

HERE = pathlib.Path(__file__).resolve().parent
BATCHES = {"mnist": (100, 1000, 8192), "cifar10": (128, 1024)}
WORKERS = {"mnist": "torch_gpu_mnist_worker.py", "cifar10": "torch_gpu_cifar_worker.py"}
SAME_WORK = {"mnist": ("--pixel-scale", 1 / 255, "--learning-rate", 0.1), "cifar10": ()}
NETWORKS = {  # on noise: (image size, batch size, options of PyTorch's process)
    "airbench94": (32, 1024, ()),
    "resnet18_cifar": (32, 128, ()),
    "resnet50": (224, 256, ()),
    "vit_small_patch16_224": (224, 256, ("--adamw",)),
    "convnext_tiny": (224, 256, ("--adamw",)),
}
PLAIN = ("--distort=false", "--regularization", 0, "--moving-average-decay", 0)
NESTEROV = ("--optimizer", "nesterov", "--momentum", 0.9, "--learning-rate", 0.01, *PLAIN)
ADAMW = ("--optimizer", "adamw", "--learning-rate", 0.0001, *PLAIN)
PRECISIONS = ("fp32", "tf32", "bf16")
FORMS = (  # (form, captured steps, precisions); compiled forms come last: compiling takes long
    ("eager", 1, PRECISIONS),
    ("graph", 1, PRECISIONS),
    ("graph", 10, PRECISIONS),
    ("compiled", 1, ("tf32", "bf16")),
    ("compiled graph", 1, ("tf32", "bf16")),
    ("compiled graph", 10, ("tf32", "bf16")),
)
CALIBRATION_STEPS = 2000


def our_program(name, folder, pattern):
    """Returns the first words of Carillon's command that trains the network on the files `pattern`, or on noise."""
    if name not in NETWORKS:
        return [folder / f"{name}_train", "--data", pattern, *SAME_WORK[name]]
    size, _, peer = NETWORKS[name]
    if name == "airbench94":
        return [folder / "cifar10_train", "--data", "synthetic", "--model", name, *NESTEROV]
    images = ("--data", "synthetic", "--classes", 10, "--model", name, "--image-size", size)
    return [folder / "image_train", *images, *(ADAMW if "--adamw" in peer else NESTEROV)]


class Ours:
    def __init__(self, options, batch, precision, pattern, work):
        self.options, self.batch, self.precision, self.pattern, self.work = options, batch, precision, pattern, work
        self.steps = None

    def _train(self, steps):
        every = max(1, steps // 10)
        with tempfile.TemporaryDirectory(dir=self.work) as train_dir:
            command = [
                *our_program(self.options.set, self.options.bin, self.pattern), "--train-dir", train_dir,
                "--device", self.options.device, "--precision", self.precision, "--batch-size", self.batch,
                "--max-steps", steps, "--log-every", every, "--summary-every", 0, "--checkpoint-every", 0,
            ]  # fmt: skip
            _, peak = measure.run(command)
            return measure.training_rate(train_dir, self.batch, every), peak

    def __call__(self):
        try:
            if not self.steps:
                rate, _ = self._train(self.options.calibration_steps)
                # The run has more steps than fit into `seconds`, because the rate excludes the start-up and the first
                # tenth of the steps.
                self.steps = max(20, int(rate / self.batch * self.options.seconds / 0.8))
            return self._train(self.steps)
        except SystemExit as failure:
            print(f"ours, {self.precision}: {failure}", file=sys.stderr)


class Peer:
    """PyTorch's process. launcher: words before the command of the process; more: further options of the command;
    errors: file for the messages of the process."""

    def __init__(self, options, batch, launcher=(), more=(), errors=None):
        self.options = options
        command = [sys.executable, HERE / WORKERS.get(options.set, "torch_gpu_network_worker.py"), "--batch", batch]
        if options.set in NETWORKS:
            size, _, more = NETWORKS[options.set]
            command += ["--network", options.set, "--size", size, "--quick-compile", *more]
        else:
            command += ["--data", options.data]
        self.process = subprocess.Popen(
            list(map(str, [*launcher, *command, "--device", options.device, *more])),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip

    def measure(self, form, steps, precision):
        request = {"form": form, "steps": steps, "precision": precision, "seconds": self.options.seconds}
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline())
            return answer["examples_per_second"], answer["peak_bytes"]
        except (OSError, ValueError):
            print(f"PyTorch, {self.options.set}, {form}, {precision}: its process has ended", file=sys.stderr)
        except KeyError:
            print(f"PyTorch, {self.options.set}, {form}, {precision}: {answer['error'][:300]}", file=sys.stderr)

    def end(self):
        self.process.kill()
        self.process.communicate()


def compare(options, batch, pattern, work, until):
    """Yields Markdown lines of one batch size."""
    peer = Peer(options, batch)
    mine = {
        f"Carillon, {precision}": Ours(options, batch, precision, pattern, work) for precision in options.precisions
    }
    others = {}
    for form, steps, precisions in FORMS:
        if (options.no_compile and "compiled" in form) or (options.set in NETWORKS and steps > 1):
            continue
        for precision in precisions:
            if precision not in options.peer_precisions or f"{form} {steps}" in options.omit:
                continue
            name = f"PyTorch {form}{f' of {steps} steps' if steps > 1 else ''}, {precision}"
            others[name] = functools.partial(peer.measure, form, steps, precision)
    try:
        found = measure.interleaved(options.rounds, mine | others, until)
    finally:
        peer.end()
    yield f"\n## {options.set}, batch {batch}\n"
    yield from measure.table(found, "examples")
    yield ""
    for precision in ("", *PRECISIONS):
        ours, theirs = ([name for name in side if name in found and precision in name] for side in (mine, others))
        if ours and theirs:
            yield (
                f"{precision or 'any precision'}: "
                + list(measure.comparison(found, ours, theirs, "examples"))[-1]
                + "\n"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=sorted([*BATCHES, *NETWORKS]))
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, help="source of mnist or cifar10")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=PRECISIONS, help="of ours")
    parser.add_argument("--peer-precisions", type=lambda text: text.split(","), default=PRECISIONS, help="of PyTorch")
    parser.add_argument("--omit", type=lambda text: text.split(","), default=(), help="forms to omit: 'eager 1,graph 1'")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="seconds of measurement per run")
    parser.add_argument("--calibration-steps", type=int, default=CALIBRATION_STEPS)
    parser.add_argument("--until", type=float, default=float("inf"), help="time.time() after which no run is started")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--device", default="cuda", help="device; cpu: only to test this script")
    parser.add_argument("--out", type=pathlib.Path, help="file for the Markdown")
    options = parser.parse_args()
    if options.set in BATCHES and not options.data:
        parser.error(f"{options.set} needs --data")
    batches = options.batches or BATCHES.get(options.set) or [NETWORKS[options.set][1]]
    lines = list(measure.conditions(options.rounds, PyTorch=importlib.metadata.version("torch")))
    with tempfile.TemporaryDirectory() as work:
        records = pathlib.Path(work) / "records"
        if options.set in BATCHES:
            measure.run([options.bin / "tfrecord_convert", options.set, "--input", options.data, "--output", records])
        for index, batch in enumerate(batches):
            share = (options.until - time.time()) / (len(batches) - index)
            lines += compare(options, batch, records / "train-*.tfrecord", pathlib.Path(work), time.time() + share)
            if options.out:
                options.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
