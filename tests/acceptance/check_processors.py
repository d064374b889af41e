"""Short trainings with --isa avx2 end with checkpoints that have the stored digests, on every processor that has AVX2.

The digests are in processor_bits.json. If you have changed results on purpose, write new digests with `--record`.
"""

import hashlib
import json
import pathlib

import programs
from programs import Result, checkpoint, load

STORED = pathlib.Path(__file__).with_name("processor_bits.json")
PICTURES = ("--image-size", 64, "--batch-size", 4)
# name: (program, options...)
TRAININGS = {
    "mnist": ("mnist_train", "--max-steps", 30),
    "mnist, adamw": ("mnist_train", "--max-steps", 20, "--optimizer", "adamw", "--learning-rate", 0.001, "--pixel-scale", 0.0039),
    "mnist, 2 threads": ("mnist_train", "--max-steps", 20, "--threads", 2),
    "tutorial": ("cifar10_train", "--max-steps", 3, "--batch-size", 32),
    "resnet9": ("cifar10_train", "--model", "resnet9", "--max-steps", 2, "--batch-size", 8),
    "airbench94": ("cifar10_train", "--model", "airbench94", "--max-steps", 2, "--batch-size", 16),
    "resnet18": ("image_train", "--model", "resnet18", "--max-steps", 2, *PICTURES),
    "resnet50": ("image_train", "--model", "resnet50", "--max-steps", 1, *PICTURES),
    "convnext_tiny": ("image_train", "--model", "convnext_tiny", "--max-steps", 1, *PICTURES),
    "vit_tiny_patch16_224": ("image_train", "--model", "vit_tiny_patch16_224", "--max-steps", 2, *PICTURES),
}


def _declare(parser):
    parser.add_argument("--record", action="store_true", help=f"write {STORED.name}")


def _digest(path):
    digest = hashlib.sha256()
    for name, values in sorted(load(path).items()):
        digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()[:24]


def check(context):
    """equal bits on every processor"""
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    found = {}
    for name, (program, *options) in TRAININGS.items():
        run = context.directory("bits")
        threads = () if "--threads" in options else ("--threads", 1)
        context.train(
            "--isa", "avx2", "--seed", 3, "--summary-every", 0, "--precision", "fp32", *threads, *options,
            program=program, data="synthetic", train_dir=run,
        )  # fmt: skip
        found[name] = _digest(checkpoint(run, options[options.index("--max-steps") + 1]))
        yield Result(f"bits of {name}", context.options.record or found[name] == stored.get(name), found[name])
    if context.options.record:
        STORED.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    programs.main(check, declare=_declare)
