"""One torchvision process of pictures_vs_others.py. Prints images per second."""

import argparse
import time

import torch
import torchvision
from torchvision.transforms import v2

parser = argparse.ArgumentParser()
parser.add_argument("--folder", required=True)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--tensors", action="store_true", help="torchvision.io.decode_jpeg in place of Pillow")
parser.add_argument("--seconds", type=float, default=8.0)
options = parser.parse_args()
torch.set_num_threads(1)

if options.tensors:
    steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
else:
    steps = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.PILToTensor()]


def load(path):
    return torchvision.io.decode_jpeg(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)


loader = {"loader": load} if options.tensors else {}
dataset = torchvision.datasets.ImageFolder(options.folder, v2.Compose(steps), **loader)
batches = torch.utils.data.DataLoader(dataset, 64, shuffle=True, num_workers=options.workers, drop_last=True)
count, started = -64 * 4, 0.0
while True:
    for images, _ in batches:
        count += len(images)
        if count == 0:
            started = time.perf_counter()
        elif count > 0 and (seconds := time.perf_counter() - started) > options.seconds:
            print(count / seconds)
            raise SystemExit
