#!/usr/bin/env python3
"""Makes the picture files of this folder, and the results of Pillow, torchvision and a TensorFlow formula for them.

    python3 make_pictures.py        (made with Pillow 13.0, torchvision 0.29.2, numpy 2)

*.jpg, *.png     one picture of 45 x 33 pixels, in different file formats
decoded.u8       for each file of NAMES, its RGB pixels as Pillow decodes them; transparent pixels are on white
composited.u8    for each file of TRANSPARENT, its RGB pixels on BACKGROUND, by Pillow's alpha_composite
oriented.u8      for each orientation 1 to 8, the RGB pixels of oriented_<N>.jpg (21 x 13 as stored) after Pillow's exif_transpose
resized.u8       for each of RESIZES, the RGB pixels of colour.png, resized by Pillow's BILINEAR
corner.u8        for each of CORNERS, the RGB pixels of colour.png, resized in float64 by the formula of TensorFlow 1's
                 resize_bilinear without align_corners. Because TensorFlow 2.21's op rounds, its result differs by one
                 level in one of 663 values
converted.u8     for each file of OTHERS, its RGB pixels by Pillow: first frame, EXIF orientation applied, on white
crops.txt        nine quantiles of the area and of the logarithm of the ratio, for pictures of several sizes, each of
                 200,000 parts that torchvision's RandomResizedCrop draws
"""
import math
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

HERE = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 45, 33
NAMES = ("colour.jpg", "full_chroma.jpg", "grey.jpg", "progressive.jpg", "cmyk.jpg", "colour.png", "transparent.png",
         "palette.png", "grey.png", "bits.png", "deep.png", "interlaced.png", "grey_alpha.png", "palette_alpha.png",
         "grey_key.png", "deep_alpha.png", "interlaced_alpha.png")
TRANSPARENT = ("transparent.png", "grey_alpha.png", "palette_alpha.png", "grey_key.png", "deep_alpha.png",
               "interlaced_alpha.png")
BACKGROUND = (200, 30, 90)
OTHERS = ("colour.tif", "alpha.tif", "deep_grey.tif", "oriented_6.tif", "oriented_7.tif", "lossless.webp", "lossy.webp",
          "oriented_8.webp", "palette.gif", "transparent.gif", "animated.gif")
# Pairs: (row, column, height, width) of a part of the picture, and (height, width) of the result.
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
    """Encodes an RGB, RGBA or grey PNG file without Pillow, because Pillow writes neither colours with 16 bits nor
    Adam7."""
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
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    alpha = np.clip(8 * x - 60 + y, 0, 255).astype(np.uint8)
    hidden = np.where(alpha[..., None] == 0, 0, pixels)  # many programs write transparent pixels as black
    transparent = np.dstack([hidden, alpha])
    Image.fromarray(transparent).save(HERE / "transparent.png")
    Image.fromarray(np.dstack([np.asarray(image.convert("L")), alpha])).save(HERE / "grey_alpha.png")
    image.quantize(32).save(HERE / "palette_alpha.png", transparency=bytes(range(0, 256, 8)))
    image.convert("L").save(HERE / "grey_key.png", transparency=int(np.asarray(image.convert("L"))[10, 20]))
    (HERE / "deep_alpha.png").write_bytes(png(transparent.astype(np.uint16) * 257, 16, 6, False))
    (HERE / "interlaced_alpha.png").write_bytes(png(transparent, 8, 6, True))
    image.quantize(32).save(HERE / "palette.png")
    image.convert("L").save(HERE / "grey.png")
    image.convert("1").save(HERE / "bits.png")
    (HERE / "deep.png").write_bytes(png(pixels.astype(np.uint16) * 257, 16, 2, False))
    (HERE / "interlaced.png").write_bytes(png(pixels, 8, 2, True))
    for orientation in range(1, 9):
        image.crop((3, 5, 24, 18)).save(HERE / f"oriented_{orientation}.jpg", quality=90, exif=exif(orientation))


def write_others():
    """Writes the files of OTHERS: pictures of 21 x 13 pixels, in formats that tfrecord_convert converts to PNG."""
    image = Image.fromarray(picture()).crop((3, 5, 24, 18))
    alpha = Image.fromarray(np.tile(np.arange(0, 252, 12, dtype=np.uint8), (13, 1)))
    transparent = image.copy()
    transparent.putalpha(alpha)
    grey = image.convert("L")
    image.save(HERE / "colour.tif", compression="tiff_lzw")
    transparent.save(HERE / "alpha.tif")
    Image.fromarray(np.asarray(grey).astype(np.uint16) * 257).save(HERE / "deep_grey.tif")
    for orientation in (6, 7):
        image.save(HERE / f"oriented_{orientation}.tif", tiffinfo={0x0112: orientation}, compression="tiff_adobe_deflate")
    transparent.save(HERE / "lossless.webp", lossless=True, exact=True)
    image.save(HERE / "lossy.webp", quality=90)
    image.save(HERE / "oriented_8.webp", lossless=True, exif=exif(8))
    image.quantize(32).save(HERE / "palette.gif", interlace=0)
    image.quantize(32).save(HERE / "transparent.gif", transparency=3, interlace=1)
    image.quantize(32).save(HERE / "animated.gif", save_all=True, append_images=[grey.quantize(8)], duration=100)


def exif(orientation):
    """Returns an EXIF block with one tag before and one tag after the tag of the orientation. The block is big-endian
    if the orientation is odd."""
    order = ">" if orientation % 2 else "<"
    tags = ((0x0100, 3, 21), (0x0112, 3, orientation), (0x0128, 3, 2))
    block = b"MM\0*" if order == ">" else b"II*\0"
    block += struct.pack(order + "IH", 8, len(tags))
    for tag, kind, value in tags:
        block += struct.pack(order + "HHIHH", tag, kind, 1, value, 0)
    return b"Exif\0\0" + block + struct.pack(order + "I", 0)


def on_background(image, colour):
    """Returns RGB pixels. If the image has transparency, composites it on `colour` by Pillow's alpha_composite."""
    if image.mode == "I;16":  # Pillow would limit the values to 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if not image.has_transparency_data:
        return image.convert("RGB")
    behind = Image.new("RGBA", image.size, colour + (255,))
    return Image.alpha_composite(behind, image.convert("RGBA")).convert("RGB")


def top_left_aligned(pixels, size):
    """Resizes in float64 with numpy: y[i] is interpolated between x[k] and x[k + 1], with k = floor(i * scale)."""
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
    white = (255, 255, 255)
    for file, colour, names in (("decoded.u8", white, NAMES), ("composited.u8", BACKGROUND, TRANSPARENT)):
        pixels = [np.asarray(on_background(Image.open(HERE / name), colour)).tobytes() for name in names]
        (HERE / file).write_bytes(b"".join(pixels))
    write_others()
    others = [on_background(ImageOps.exif_transpose(Image.open(HERE / name)), white) for name in OTHERS]
    (HERE / "converted.u8").write_bytes(b"".join(np.asarray(image).tobytes() for image in others))
    shown = [ImageOps.exif_transpose(Image.open(HERE / f"oriented_{orientation}.jpg")) for orientation in range(1, 9)]
    (HERE / "oriented.u8").write_bytes(b"".join(np.asarray(image.convert("RGB")).tobytes() for image in shown))
    source = Image.open(HERE / "colour.png").convert("RGB")
    resized, corner = b"", b""
    for (row, column, height, width), size in RESIZES:
        part = source.crop((column, row, column + width, row + height))
        resized += np.asarray(part.resize(size[::-1], Image.BILINEAR)).tobytes()
    for (row, column, height, width), size in CORNERS:
        part = np.asarray(source, float)[row:row + height, column:column + width]
        corner += np.round(top_left_aligned(part, size)).astype(np.uint8).tobytes()
    (HERE / "resized.u8").write_bytes(resized)
    (HERE / "corner.u8").write_bytes(corner)
    (HERE / "crops.txt").write_text("\n".join(crop_lines()) + "\n")


if __name__ == "__main__":
    main()
