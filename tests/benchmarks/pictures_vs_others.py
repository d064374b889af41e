"""Compares the speed of Carillon, torchvision and tf.data on one core: pictures to training images of 224x224 uint8.

  python tests/benchmarks/pictures_vs_others.py --bin build/bin --data FOLDER_OF_CIFAR10S_BINARY_VERSION

All three do the same work: JPEG decoding, random crop (area 0.08 to 1, ratio 3/4 to 4/3), bilinear resize, random flip,
batches of
64. The pictures are mosaics of CIFAR-10's images with noise, about 100 kB each, like ImageNet's pictures. Each round
    runs every configuration once; the result is the median over rounds. Prints Markdown. Needs an idle machine, a
    Python with Pillow, torch and torchvision, and a Python with tensorflow (--tensorflow-python).
"""

import argparse
import importlib.metadata
import os
import pathlib
import sys
import tempfile

import measure
import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent


def write_pictures(source, folder, count):
    tiles = np.fromfile(source / "data_batch_1.bin", np.uint8).reshape(-1, 3073)[:, 1:]
    tiles = tiles.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    random = np.random.default_rng(1)
    size = 0
    for i in range(count):
        picked = tiles[random.integers(0, len(tiles), 12)].reshape(3, 4, 32, 32, 3)
        mosaic = picked.transpose(0, 2, 1, 3, 4).reshape(96, 128, 3)
        pixels = np.asarray(Image.fromarray(mosaic).resize((500, 375), Image.BICUBIC), float)
        pixels = np.clip(pixels + random.normal(0, 9, pixels.shape), 0, 255).astype(np.uint8)
        path = folder / f"class{i % 10}" / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, quality=92)
        size += path.stat().st_size
    return size / count


def ours(options, records):
    program = ["taskset", "-c", options.core, options.bin / "picture_benchmark", 1, options.seconds, 224, 0, records]
    output, peak = measure.run(program)
    return float(output.split()[0]), peak


def theirs(options, python, worker, *arguments):
    command = ["taskset", "-c", options.core, python, HERE / worker, "--seconds", options.seconds, *arguments]
    output, peak = measure.run(command, os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"})
    return float(output.split()[-1]), peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of CIFAR-10's six .bin files")
    parser.add_argument("--tensorflow-python", help="Python with tensorflow; without it tf.data is omitted")
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--core", type=int, default=0, help="number of the core that all programs use")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder, records = pathlib.Path(work) / "pictures", pathlib.Path(work) / "records"
        mean_bytes = write_pictures(options.data, folder, options.pictures)
        measure.run([options.bin / "tfrecord_convert", "images", "--input", folder, "--output", records])
        shard = records / "train-00000-of-00001.tfrecord"
        mine = {"Carillon, 1 thread": lambda: ours(options, shard)}
        others = {}
        for name, flags in (
            ("torchvision, Pillow, in the process", ()),
            ("torchvision, Pillow, 1 worker", ("--workers", 1)),
            ("torchvision, decode_jpeg and tensors, in the process", ("--tensors",)),
        ):
            arguments = ("--folder", folder, *flags)
            others[name] = lambda a=arguments: theirs(options, sys.executable, "torchvision_worker.py", *a)
        if options.tensorflow_python:
            for name, flags in (("tf.data", ()), ("tf.data, fast DCT and upscaling", ("--fast",))):
                arguments = ("--records", shard, *flags)
                others[name] = lambda a=arguments: theirs(options, options.tensorflow_python, "tf_pictures_worker.py", *a)
        version = importlib.metadata.version
        lines = [*measure.conditions(options.rounds, torchvision=version("torchvision"), Pillow=version("Pillow"))]
        lines += [f"- {options.pictures} pictures of {mean_bytes / 1000:.0f} kB on average", ""]
        found = measure.interleaved(options.rounds, mine | others)
        lines += measure.comparison(found, list(mine), list(others), "images")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
