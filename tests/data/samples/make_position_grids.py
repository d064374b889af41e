"""Writes tests/data/samples/position_grids.txt: position embeddings of vision transformers before and after timm
resizes them.

  make_position_grids.py OUTPUT

Each case has three lines: the sides of both grids and the number of channels; the positions [1 + side^2, channels]; the
resized positions. Requires PyTorch and timm.
"""

import sys

import torch
from timm.layers import resample_abs_pos_embed

torch.manual_seed(1)


def text(values):
    return " ".join(f"{value:.9g}" for value in values.flatten().tolist())


def main():
    with open(sys.argv[1], "w") as file:
        for side, new_side, channels in ((3, 5, 2), (6, 4, 3), (7, 2, 1), (4, 1, 2), (2, 6, 2)):
            positions = torch.randn(1, 1 + side * side, channels)
            resized = resample_abs_pos_embed(positions, new_size=[new_side, new_side], num_prefix_tokens=1)
            file.write(f"{side} {new_side} {channels}\n{text(positions)}\n{text(resized)}\n")


main()
