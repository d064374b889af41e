"""Writes tests/data/samples/network_logits.txt: logits of networks of torchvision and timm in float64.

  make_network_logits.py OUTPUT

A hash determines the weights and the image; tests/train/network_logits_test.cpp computes the same hash. Each line is
for one network: its name in Carillon, then its ten logits for an image of 64 x 64 pixels. The first layer's weights and
the positions are small, so that the epsilon of the first layer norms matters. Requires torchvision and timm.
"""

import sys

import numpy as np
import timm
import torch
import torchvision
from timm.layers import resample_abs_pos_embed

SIDE = 64
FIRST = ("patch_embed.proj.weight", "stem.0.weight")


def draw(name, count):
    """Returns `count` values from -1 to 1 that depend on `name`."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    x = np.arange(count, dtype=np.uint32) + np.uint32(seed)
    for _ in range(2):
        x = (x ^ (x >> 16)) * np.uint32(0x45D9F3B)
    return (x ^ (x >> 16)) / 2.0**31 - 1.0


def values_of(name, shape):
    u = draw(name, int(np.prod(shape))).reshape(shape)
    if name in ("cls_token", "pos_embed"):
        u = 0.01 * u
    elif len(shape) > 1:
        u = u * (0.01 if name in FIRST else 1.0) * np.sqrt(3.0 / np.prod(shape[1:]))
    elif name.endswith("running_var"):
        u = 1.0 + 0.5 * u
    elif name.endswith("gamma"):
        u = 0.5 + 0.3 * u
    elif name.endswith("weight"):
        u = 1.0 + 0.3 * u
    else:
        u = 0.1 * u
    return torch.tensor(u.astype(np.float32).astype(np.float64))


def logits_of(network, mean, deviation):
    arrays = {}
    for name, values in network.state_dict().items():
        shape = tuple(values.shape)
        if name == "pos_embed":  # the file has positions for 224 x 224 pixels
            grid = values_of(name, (1, 197, shape[2])).float()
            arrays[name] = resample_abs_pos_embed(grid, new_size=[SIDE // 16] * 2, num_prefix_tokens=1).double()
        elif not name.endswith("num_batches_tracked"):
            arrays[name] = values_of(name, shape)
    network.double().load_state_dict(arrays, strict=False)
    image = np.floor((draw("image", 3 * SIDE * SIDE) + 1.0) * 128.0).reshape(1, 3, SIDE, SIDE) / 255.0
    x = (torch.tensor(image) - torch.tensor(mean).double().view(3, 1, 1)) / torch.tensor(deviation).double().view(3, 1, 1)
    with torch.no_grad():
        return network.eval()(x)[0]


def main():
    imagenet, half = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), ((0.5,) * 3, (0.5,) * 3)
    vit = "vit_tiny_patch16_224"
    networks = {
        "resnet18": (torchvision.models.resnet18(num_classes=10), *imagenet),
        "resnet50": (torchvision.models.resnet50(num_classes=10), *imagenet),
        "convnext_tiny": (timm.create_model("convnext_tiny", num_classes=10), *imagenet),
        vit: (timm.create_model(vit, num_classes=10, img_size=SIDE), *half),
    }
    with open(sys.argv[1], "w") as file:
        for name, parts in networks.items():
            file.write(f"{name} {' '.join(f'{logit:.9g}' for logit in logits_of(*parts).tolist())}\n")


main()
