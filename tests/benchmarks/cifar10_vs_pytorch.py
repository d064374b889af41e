"""Compares the training speed of cifar10_train and PyTorch on one CPU: CIFAR-10, batch 128 per rank, whole training loop.

  python tests/benchmarks/cifar10_vs_pytorch.py --bin build/bin --data FOLDER_OF_THE_BINARY_VERSION

Both programs do the same work, including distortions, LRN, weight decay and moving averages (see
torch_cifar_worker.py). Carillon writes no summaries. Each round runs every configuration once, in a separate process.
The result is the median over rounds; the ratio compares the best configurations. Prints Markdown. Needs an idle machine
and a Python with torch.

On a processor without AMX or AVX512-BF16, add --only "fp32|PyTorch": such a processor emulates bf16, which is many
times slower.
"""

import versus

PLAIN = ("--summary-every", 0, "--log-every", 10)
# With these variables, glibc keeps the memory of freed activations. Without them, glibc would return the memory to the
# system in every step.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_MMAP_THRESHOLD_": str(1 << 32)}
HUGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1"}  # with it, PyTorch uses huge pages, as Carillon does
FAST = ("--optimizer", "fused")


def configure(comparison):
    if comparison.options.bin:
        records = comparison.convert("cifar10")
        for precision in ("fp32", "bf16"):
            options = ("--precision", precision, *PLAIN)
            comparison.add_ours(f"Carillon, {precision}, 1 rank, 2 threads", records, 1, "--threads", 2, *options)
            comparison.add_ours(f"Carillon, {precision}, 2 ranks", records, 2, "--threads", 1, *options)
    for name, threads, flags, environment in (
        ("channels_last, 2 threads", 2, (), ()),
        ("channels_last, kept memory, 2 threads", 2, (), KEEP_MEMORY),
        ("channels_last, kept memory, huge pages, 2 threads", 2, (), KEEP_MEMORY | HUGE_PAGES),
        ("channels_last, kept memory, 1 thread", 1, (), KEEP_MEMORY),
        ("channels_last, autograd's LRN, 2 threads", 2, ("--lrn", "band"), KEEP_MEMORY),
        ("channels_last, F.local_response_norm, 2 threads", 2, ("--lrn", "torch"), KEEP_MEMORY),
        ("contiguous, kept memory, 2 threads", 2, ("--layout", "contiguous"), KEEP_MEMORY),
        ("channels_last, compiled, 2 threads", 2, ("--lrn", "band", "--compile"), KEEP_MEMORY),
        ("channels_last, bf16 autocast, 2 threads", 2, ("--autocast",), KEEP_MEMORY | HUGE_PAGES),
        ("channels_last, bf16 autocast, compiled, 2 threads", 2, ("--lrn", "band", "--compile", "--autocast"), KEEP_MEMORY),
    ):
        if not (comparison.options.no_compile and "--compile" in flags):
            comparison.add_theirs(f"PyTorch {name}", threads, *FAST, *flags, environment=environment)
    name = "PyTorch channels_last, kept memory, gloo DDP, 2 ranks"
    comparison.add_theirs_distributed(name, 2, *FAST, environment=KEEP_MEMORY)
    name = "PyTorch channels_last, bf16 autocast, gloo DDP, 2 ranks"
    comparison.add_theirs_distributed(name, 2, *FAST, "--autocast", environment=KEEP_MEMORY)


if __name__ == "__main__":
    parser = versus.arguments(
        __doc__.splitlines()[0], "folder of CIFAR-10's six .bin files, or their .tar.gz", steps=400, seconds=8.0
    )
    versus.main(parser, "cifar10_train", "torch_cifar_worker.py", 128, configure)
