"""Writes CIFAR-10 images as PNG files in class folders.

  python tests/benchmarks/cifar10_pictures.py --input ARCHIVE --output FOLDER --count 5000 --test 2000

Writes the first images of each class: in total --count images of the training batches and --test images of the test
batch. Writes FOLDER/CLASS/00001.png (the number is the image's position in its split), or with --test
FOLDER/train/CLASS and FOLDER/test/CLASS. Requires a Python with Pillow and NumPy.
"""

import argparse
import pathlib
import sys

import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "acceptance"))
import cifar  # noqa: E402

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def write(records, count, folder):
    """Writes the first count / 10 images of each class. Exits if a class has fewer images. records: [N, 3073] uint8"""
    labels, images = records[:, 0], records[:, 1:].reshape(-1, 3, 32, 32)
    each = count // len(CLASSES)
    for index, name in enumerate(CLASSES):
        positions = np.flatnonzero(labels == index)[:each]
        if len(positions) < each:
            sys.exit(f"cifar10_pictures: the split has {len(positions)} images of {name}, {each} requested")
        (folder / name).mkdir(parents=True)
        for position in positions:
            Image.fromarray(images[position].transpose(1, 2, 0)).save(folder / name / f"{position:05}.png")
    print(f"{folder}: {each * len(CLASSES)} pictures in {len(CLASSES)} classes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=pathlib.Path, required=True, help="archive or folder of the binary version")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="new folder for the pictures")
    parser.add_argument("--count", type=int, default=5000, help="training pictures, a multiple of 10")
    parser.add_argument("--test", type=int, default=0, help="test pictures, a multiple of 10; 0: no train/ and test/")
    options = parser.parse_args()
    if options.count % len(CLASSES) or options.test % len(CLASSES):
        parser.error("--count and --test must be multiples of 10")
    if options.output.exists():
        parser.error(f"--output: {options.output} exists already")
    train = options.output / "train" if options.test else options.output
    batches = cifar.read_batches(options.input)
    write(np.concatenate([batches[name] for name in cifar.TRAIN]), options.count, train)
    if options.test:
        write(batches[cifar.TEST], options.test, options.output / "test")


if __name__ == "__main__":
    main()
