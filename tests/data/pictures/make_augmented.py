#!/usr/bin/env python3
"""Makes the results of torchvision's RandAugment and RandomErasing that tests/images/augment_test.cpp compares with.

    python3 make_augmented.py        (made with Pillow 13.0, torch 2.15.0, torchvision 0.29.2)

augmented.u8   an image of 28 x 20 RGB pixels, then the results of RandAugment's ops on this image as a Pillow image.
               The ops are in torchvision's order. For each op, there is a result for each of MAGNITUDES with positive
               sign and, if the op has a direction, a second one with negative sign
erased.txt     for each of SIZES: height, width, nine quantiles of the area, and nine quantiles of the logarithm of
               height / width, of 50,000 boxes that RandomErasing draws
"""
import math
import pathlib

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import RandomErasing
from torchvision.transforms.autoaugment import RandAugment, _apply_op
from torchvision.transforms.functional import InterpolationMode

HERE = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 28, 20  # smallest size at which equalize changes the image
MAGNITUDES = (9, 20)
SIZES = ((32, 32), (224, 224), (96, 40))  # (height, width)


def image():
    """Returns an image. Its colours use only a part of the range from 0 to 255, and neighbouring pixels have different
    colours."""
    y, x, channel = np.mgrid[:HEIGHT, :WIDTH, :3]
    values = 30 + 3 * x + 4 * y + 12 * channel + (x * 37 + y * 61 + channel * 17) % 29 - 25 * ((x // 4 + y // 3) % 2)
    return Image.fromarray(values.astype(np.uint8))


def results(source):
    space = RandAugment()._augmentation_space(31, (HEIGHT, WIDTH))
    for name, (magnitudes, signed) in space.items():
        for magnitude in MAGNITUDES:
            value = float(magnitudes[magnitude].item()) if magnitudes.ndim > 0 else 0.0
            for sign in (1.0, -1.0) if signed else (1.0,):
                yield _apply_op(source, name, sign * value, InterpolationMode.NEAREST, None)


def quantiles(values):
    return " ".join(str(round(float(value), 5)) for value in np.quantile(values, np.arange(1, 10) / 10))


def main():
    source = image()
    pixels = [np.asarray(picture).tobytes() for picture in (source, *results(source))]
    (HERE / "augmented.u8").write_bytes(b"".join(pixels))
    torch.manual_seed(1)
    lines = []
    for height, width in SIZES:
        picture = torch.zeros(3, height, width)
        boxes = [RandomErasing.get_params(picture, (0.02, 0.33), (0.3, 3.3), [0.0]) for _ in range(50_000)]
        drawn = [(h, w) for _, _, h, w, value in boxes if (h, w) != (height, width)]
        areas = [h * w / (height * width) for h, w in drawn]
        ratios = [math.log(h / w) for h, w in drawn]
        lines.append(f"{height} {width} {quantiles(areas)} {quantiles(ratios)}")
    (HERE / "erased.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
