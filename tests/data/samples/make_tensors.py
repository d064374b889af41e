#!/usr/bin/env python3
"""Writes tensors.safetensors with Hugging Face's library. tests/checkpoint/safetensors_test.cpp reads it.

    pip install safetensors torch
"""
import pathlib

import torch
from safetensors.torch import save_file

VALUES = [0.0, -0.0, 1.0, -2.5, 65504.0, 2.0**-24, 2.0**-14, 0.1, float("inf"), float("-inf")]

tensors = {
    "f32": torch.tensor(VALUES).reshape(2, 5),
    "f16": torch.tensor(VALUES).to(torch.float16),
    "bf16": torch.tensor(VALUES).to(torch.bfloat16),
    "layer.größe": torch.tensor(3.0),
    "empty": torch.zeros(0, 4),
    "norm.num_batches_tracked": torch.tensor(7),
}
save_file(tensors, pathlib.Path(__file__).parent / "tensors.safetensors", {"format": "pt"})
