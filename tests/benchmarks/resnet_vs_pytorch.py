"""Compares the training speed of cifar10_train and PyTorch for a modern network on CIFAR-10, whole training loop.

  python tests/benchmarks/resnet_vs_pytorch.py --network resnet9 --bin build/bin --data FOLDER_OF_THE_BINARY_VERSION

Carillon and PyTorch do the same work (see torch_resnet_worker.py). PyTorch is measured in fp32 and with bf16 autocast.
Each round runs every configuration once, in a separate process. The result is the median over rounds; the ratio
compares the best configurations. Prints Markdown. Needs an idle machine and a Python with torch.

On a processor without AMX or AVX512-BF16, add --only "fp32|PyTorch": such a processor emulates bf16, which is many
times slower.
"""

import versus
from cifar10_vs_pytorch import HUGE_PAGES, KEEP_MEMORY

NETWORKS = ("resnet9", "resnet18_cifar", "resnet50", "airbench94", "airbench96")
BATCH = 128  # samples per rank
OPTIONS = (
    "--summary-every", 0, "--log-every", 1, "--optimizer", "nesterov", "--momentum", 0.9, "--weight-decay", 5e-4,
    "--regularization", 0, "--moving-average-decay", 0, "--schedule", "constant", "--learning-rate", 0.01,
)  # fmt: skip


def configure(comparison):
    network = ("--network", comparison.options.network)
    fast = ("--optimizer", "fused", *network)
    if comparison.options.bin:
        records = comparison.convert("cifar10")
        batch = ("--global-batch", BATCH, "--micro-batch", BATCH // 2)
        for precision in ("fp32", "bf16"):
            model = ("--model", comparison.options.network, "--precision", precision, *OPTIONS)
            name = f"Carillon, {precision}"
            comparison.add_ours(f"{name}, 1 rank, 2 threads", records, 1, "--threads", 2, *model)
            comparison.add_ours(f"{name}, 2 ranks", records, 2, "--threads", 1, *model)
            comparison.add_ours(f"{name}, 1 rank, 2 micro-batches", records, 1, "--threads", 2, *model, *batch)
    for name, threads, flags, environment in (
        ("channels_last, kept memory, 2 threads", 2, (), KEEP_MEMORY),
        ("channels_last, kept memory, huge pages, 2 threads", 2, (), KEEP_MEMORY | HUGE_PAGES),
        ("contiguous, kept memory, 2 threads", 2, ("--layout", "contiguous"), KEEP_MEMORY),
        ("channels_last, compiled, kept memory, 2 threads", 2, ("--compile",), KEEP_MEMORY),
        ("channels_last, bf16 autocast, 2 threads", 2, ("--autocast",), KEEP_MEMORY | HUGE_PAGES),
        ("contiguous, bf16 autocast, 2 threads", 2, ("--layout", "contiguous", "--autocast"), KEEP_MEMORY),
        ("channels_last, bf16 autocast, compiled, 2 threads", 2, ("--compile", "--autocast"), KEEP_MEMORY),
    ):
        if not (comparison.options.no_compile and "--compile" in flags):
            comparison.add_theirs(f"PyTorch {name}", threads, *fast, *flags, environment=environment)
    name = "PyTorch channels_last, kept memory, gloo DDP, 2 ranks"
    comparison.add_theirs_distributed(name, 2, *fast, environment=KEEP_MEMORY)
    name = "PyTorch channels_last, bf16 autocast, gloo DDP, 2 ranks"
    comparison.add_theirs_distributed(name, 2, *fast, "--autocast", environment=KEEP_MEMORY)


if __name__ == "__main__":
    parser = versus.arguments(
        __doc__.splitlines()[0], "folder of CIFAR-10's six .bin files, or their .tar.gz", steps=12, seconds=10.0
    )
    parser.add_argument("--network", choices=NETWORKS, required=True)
    versus.main(parser, "cifar10_train", "torch_resnet_worker.py", BATCH, configure)
