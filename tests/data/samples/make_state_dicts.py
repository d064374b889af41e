"""Writes tests/data/samples/state_dicts.txt: names and shapes of all arrays of some networks of torchvision and timm.

  make_state_dicts.py OUTPUT

Each network has 10 classes. A line with the network's name in Carillon comes first, then one line per array. Batch
counters are omitted. Requires torchvision and timm.
"""

import sys

import timm
import torchvision


def main():
    networks = {name: getattr(torchvision.models, name)(num_classes=10) for name in ("resnet18", "resnet50")}
    networks |= {name: timm.create_model(name, num_classes=10) for name in ("convnext_tiny", "vit_tiny_patch16_224")}
    with open(sys.argv[1], "w") as file:
        for name, network in networks.items():
            file.write(f"{name}\n")
            for array, values in network.state_dict().items():
                if not array.endswith("num_batches_tracked"):
                    file.write(f"  {array} {' '.join(map(str, values.shape))}\n")


main()
