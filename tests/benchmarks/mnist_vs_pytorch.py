"""Compares the training speed of mnist_train, PyTorch and JAX on one CPU: MNIST, batch 100 per rank, whole loop.

  python tests/benchmarks/mnist_vs_pytorch.py --bin build/bin --data DIRECTORY_OF_IDX_FILES

All programs do the same work (see torch_worker.py and jax_worker.py; --no-jax leaves JAX out). By default, Carillon
writes more logs than PyTorch, so the script switches its logs off, except in one configuration. Each round runs every
configuration once, in a separate process. The result is the median over rounds; the ratio compares the best
configurations. Prints Markdown. Needs an idle machine and a Python with torch and jax.

--regime defaults: Carillon and PyTorch use mnist_train's default options: raw pixels and a small learning rate. The
measurement begins after 1000 steps, when gradients and averages become denormal. PyTorch is measured with and without
flushing of denormals.

--random-pixels: the pixels of all images are random. In MNIST, 81 % of the pixels are zero, and Carillon omits their
products in the first layer. With this option, Carillon can omit no products.
"""

import random
import struct

import versus

SAME_WORK = ("--pixel-scale", 1 / 255, "--learning-rate", 0.1)
PLAIN = ("--summary-every", 0, "--log-every", 100)


DEFAULT_REGIME = ("--pixel-scale", 1, "--learning-rate", 0.001)
WARM_UP = 1000  # steps before the measurement


def write_random_images(folder):
    """Writes IDX files with as many images as MNIST. No pixel is zero."""
    folder.mkdir()
    source = random.Random(1)
    nonzero = bytes(1 + value % 255 for value in range(256))
    for split, count in (("train", 60000), ("t10k", 10000)):
        pixels = source.randbytes(count * 784).translate(nonzero)
        (folder / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + pixels)
        labels = bytes(source.choices(range(10), k=count))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + labels)
    return folder


def configure(comparison):
    if comparison.options.random_pixels:
        comparison.options.data = write_random_images(comparison.work / "random")
    if comparison.options.regime == "defaults":
        return configure_defaults(comparison)
    options = comparison.options
    if options.bin:
        records = comparison.convert("mnist")
        for name, ranks, more in (
            ("1 rank, 1 thread", 1, ("--threads", 1, *PLAIN)),
            ("1 rank, 2 threads", 1, ("--threads", 2, *PLAIN)),
            ("2 ranks", 2, ("--threads", 1, *PLAIN)),
            ("2 ranks, default logs and summaries", 2, ("--threads", 1)),
        ):
            comparison.add_ours(f"Carillon, {name}", records, ranks, *SAME_WORK, *more)
    for variant, flags in (
        ("eager, foreach", ()),
        ("eager, fused", ("--optimizer", "fused")),
        ("compiled, fused", ("--optimizer", "fused", "--compile")),
        ("eager, fused, bf16 autocast", ("--optimizer", "fused", "--autocast")),
        ("compiled, fused, bf16 autocast", ("--optimizer", "fused", "--compile", "--autocast")),
    ):
        if options.no_compile and "--compile" in flags:
            continue
        for threads in (1, 2):
            name = f"PyTorch {variant}, {threads} thread{'s' if threads > 1 else ''}"
            comparison.add_theirs(name, threads, *flags)
        if "--compile" not in flags:
            comparison.add_theirs_distributed(f"PyTorch {variant}, gloo DDP, 2 ranks", 2, *flags)
    if not options.no_jax:
        comparison.peers.append("jax")
        for variant, flags in (("", ()), (", bf16", ("--bf16",))):
            for threads in (1, 2):
                name = f"JAX{variant}, {threads} thread{'s' if threads > 1 else ''}"
                comparison.add_theirs(name, threads, *flags, worker="jax_worker.py")


def configure_defaults(comparison):
    if comparison.options.bin:
        records = comparison.convert("mnist")
        for name, ranks, more in (
            ("1 rank, 1 thread", 1, ("--threads", 1, *PLAIN)),
            ("2 ranks", 2, ("--threads", 1, *PLAIN)),
            ("2 ranks, default logs and summaries", 2, ("--threads", 1)),
        ):
            comparison.add_ours(f"Carillon, {name}", records, ranks, *more, after=WARM_UP)
    for name, flags in (
        ("", ()),
        (", denormals flushed", ("--flush-denormals",)),
        (", denormals flushed, bf16 autocast", ("--flush-denormals", "--autocast")),
    ):
        for threads in (1, 2):
            comparison.add_theirs(
                f"PyTorch eager, fused{name}, {threads} thread{'s' if threads > 1 else ''}", threads,
                "--optimizer", "fused", "--warm-up", WARM_UP, *DEFAULT_REGIME, *flags,
            )  # fmt: skip


if __name__ == "__main__":
    parser = versus.arguments(__doc__.splitlines()[0], "directory of the IDX files", steps=6000, seconds=4.0)
    parser.add_argument("--regime", choices=("scaled", "defaults"), default="scaled")
    parser.add_argument("--random-pixels", action="store_true")
    parser.add_argument("--no-jax", action="store_true")
    versus.main(parser, "mnist_train", "torch_worker.py", 100, configure)
