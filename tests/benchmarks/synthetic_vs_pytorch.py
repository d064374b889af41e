"""Compares speed and memory of image_train --data synthetic and PyTorch, for a network at any image size, on noise.

  python tests/benchmarks/synthetic_vs_pytorch.py --network resnet50 --size 224 --bin build/bin --data .

Carillon and PyTorch do the same work: they normalise uint8 images from memory, compute the forward and backward pass
for 1000 classes with batches of 16, and update by Nesterov's momentum with L2. Both are measured in fp32 and bf16.
PyTorch's bf16 is autocast; PyTorch is also measured compiled and with two ranks. Each round runs every configuration
once, in a separate process. Prints Markdown. Needs an idle machine and a Python with torch, and with timm if only timm
has the network. --data is ignored.

With --onnx FILE, Carillon is also measured with the network in this file. If Carillon has no network of this name, add
--only "ONNX|PyTorch".
"""

import pathlib

import versus
from cifar10_vs_pytorch import KEEP_MEMORY

BATCH = 16


def configure(comparison):
    options = comparison.options
    shared = ("--network", options.network, "--size", options.size, "--optimizer", "fused")
    if options.bin:
        for source, model in (("", options.network), (", ONNX", options.onnx)):
            ours = ("--model", model, "--image-size", options.size, "--log-every", 1)
            for precision in ("fp32", "bf16") if model else ():
                for name, ranks, threads in (("1 rank, 2 threads", 1, 2), ("2 ranks", 2, 1)):
                    comparison.add_ours(
                        f"Carillon{source}, {precision}, {name}", "synthetic", ranks,
                        "--threads", threads, "--precision", precision, *ours,
                    )  # fmt: skip
    for layout in ("channels_last", "contiguous"):
        for name, flags in (("", ()), (", bf16 autocast", ("--autocast",))):
            comparison.add_theirs(
                f"PyTorch {layout}{name}, kept memory, 2 threads", 2, *shared, "--layout", layout, *flags,
                environment=KEEP_MEMORY,
            )  # fmt: skip
    for name, flags in (("", ()), (", bf16 autocast", ("--autocast",))) if not options.no_compile else ():
        comparison.add_theirs(
            f"PyTorch channels_last{name}, compiled, 2 threads", 2, *shared, "--compile", *flags,
            environment=KEEP_MEMORY,
        )  # fmt: skip
    name = "PyTorch channels_last, bf16 autocast, gloo DDP, 2 ranks"
    comparison.add_theirs_distributed(name, 2, *shared, "--autocast", environment=KEEP_MEMORY)


if __name__ == "__main__":
    parser = versus.arguments(__doc__.splitlines()[0], "ignored", steps=8, seconds=10.0)
    parser.add_argument("--network", required=True, help="its name here and in torch_networks.py or timm")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--onnx", type=pathlib.Path, metavar="FILE", help="the same network in an ONNX file")
    versus.main(parser, "image_train", "torch_synthetic_worker.py", BATCH, configure)
