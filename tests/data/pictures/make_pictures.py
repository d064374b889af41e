#!/usr/bin/env python3
"""Makes the picture files of this folder, and the results of Pillow, torchvision and a TensorFlow formula for them.

    python3 make_pictures.py        (made with Pillow 13.0, torchvision 0.29.2, numpy 2)

*.jpg, *.png     one picture of 45 x 33 pixels in the forms that files have
decoded.u8       for each file of NAMES, its RGB pixels as Pillow decodes them, one after the other
resized.u8       for each of RESIZES, those of colour.png, resized by Pillow's BILINEAR
corner.u8        the same of CORNERS, by the formula of TensorFlow 1's resize_bilinear without align_corners, in float64; one value
                 in 663 is a level off what TensorFlow 2.21's op gives, by its rounding
crops.txt        of 200,000 parts each that torchvision's RandomResizedCrop draws of pictures of several sizes: nine quantiles
                 of area and of the logarithm of the ratio
"""
import math
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 45, 33
NAMES = ("colour.jpg", "full_chroma.jpg", "grey.jpg", "progressive.jpg", "cmyk.jpg", "colour.png", "transparent.png",
         "palette.png", "grey.png", "bits.png", "deep.png", "interlaced.png")
# part (row, column, height, width) -> height, width
RESIZES = (((0, 0, 33, 45), (16, 16)), ((3, 5, 20, 31), (24, 24)), ((7, 0, 26, 17), (60, 41)), ((10, 40, 1, 1), (5, 5)),
           ((0, 0, 33, 45), (33, 45)), ((1, 2, 32, 40), (3, 4)))
CORNERS = RESIZES[:4]


def picture():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    red = 128 + 100 * np.sin(x / 5) * np.cos(y / 7)
    green = 255 * x / WIDTH
    blue = 128 + 120 * np.sin((x + 2 * y) / 9)
    pixels = np.stack([red, green, blue], -1)
    pixels[8:14, 10:25] = (250, 10, 30)  # sharp edges
    return np.clip(np.round(pixels), 0, 255).astype(np.uint8)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(pixels, depth, colour, interlaced):
    """An RGB or grey PNG by hand: Pillow writes neither 16-bit colours nor Adam7."""
    height, width = pixels.shape[:2]
    values = pixels.astype(">u2") if depth == 16 else pixels
    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    rows = b""
    for top, left, down, right in passes if interlaced else ((0, 0, 1, 1),):
        for row in values[top::down, left::right]:
            if row.size:
                rows += b"\0" + row.tobytes()
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_files():
    pixels = picture()
    image = Image.fromarray(pixels)
    image.save(HERE / "colour.jpg", quality=90)
    image.save(HERE / "full_chroma.jpg", quality=90, subsampling=0)
    image.convert("L").save(HERE / "grey.jpg", quality=90)
    image.save(HERE / "progressive.jpg", quality=90, progressive=True)
    image.convert("CMYK").save(HERE / "cmyk.jpg", quality=90)
    image.save(HERE / "colour.png")
    alpha = Image.fromarray(np.full((HEIGHT, WIDTH), 100, np.uint8))
    transparent = image.copy()
    transparent.putalpha(alpha)
    transparent.save(HERE / "transparent.png")
    image.quantize(32).save(HERE / "palette.png")
    image.convert("L").save(HERE / "grey.png")
    image.convert("1").save(HERE / "bits.png")
    (HERE / "deep.png").write_bytes(png(pixels.astype(np.uint16) * 257, 16, 2, False))
    (HERE / "interlaced.png").write_bytes(png(pixels, 8, 2, True))


def corner_aligned(pixels, size):
    """numpy, in float64: y[i] between x[floor(i scale)] and the next."""
    for axis, length in enumerate(size):
        old = pixels.shape[axis]
        x = np.arange(length) * (old / length)
        below = np.floor(x).astype(int)
        share = (x - below).reshape((-1,) + (1,) * (2 - axis))
        above = np.minimum(below + 1, old - 1)
        pixels = np.take(pixels, below, axis) * (1 - share) + np.take(pixels, above, axis) * share
    return pixels


def crop_lines():
    import torch
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(1)
    for width, height in ((500, 375), (64, 64), (900, 100)):
        image = torch.zeros((1, height, width))
        areas, ratios, wholes = [], [], 0
        for _ in range(200_000):
            _, _, h, w = RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
            areas.append(h * w / (height * width))
            ratios.append(math.log(w / h))
        at = np.arange(1, 10) / 10
        yield " ".join(str(v) for v in (width, height, *np.quantile(areas, at).round(5), *np.quantile(ratios, at).round(5)))


def main():
    write_files()
    decoded = b"".join(np.asarray(Image.open(HERE / name).convert("RGB")).tobytes() for name in NAMES)
    (HERE / "decoded.u8").write_bytes(decoded)
    source = Image.open(HERE / "colour.png").convert("RGB")
    resized, corner = b"", b""
    for (row, column, height, width), size in RESIZES:
        part = source.crop((column, row, column + width, row + height))
        resized += np.asarray(part.resize(size[::-1], Image.BILINEAR)).tobytes()
    for (row, column, height, width), size in CORNERS:
        part = np.asarray(source, float)[row:row + height, column:column + width]
        corner += np.round(corner_aligned(part, size)).astype(np.uint8).tobytes()
    (HERE / "resized.u8").write_bytes(resized)
    (HERE / "corner.u8").write_bytes(corner)
    (HERE / "crops.txt").write_text("\n".join(crop_lines()) + "\n")


if __name__ == "__main__":
    main()
