"""ResNet-18 and ResNet-9 in float64 PyTorch: what cifar10_train --model computes without distortion.

Variables and states have the program's names and layouts: convolutions [height, width, in, out], dense [in, out]. Each
tower normalises by its own batch and keeps its own running statistics; the checkpoint has their mean.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from programs import load
from reference_cifar10 import read_set

MEANS = (0.4914, 0.4822, 0.4465)


def _parts(checkpoint, group, dtype=torch.float64):
    prefix = f"{group}/"
    arrays = load(checkpoint)
    return {n[len(prefix) :]: torch.from_numpy(a).to(dtype) for n, a in arrays.items() if n.startswith(prefix)}


class _Layers:
    """One pass over a batch: `states` change where it trains."""

    def __init__(self, variables, states, training):
        self.variables, self.states, self.training = variables, states, training

    def conv_norm(self, name, x, stride=1):
        weights = self.variables[f"{name}/weights"].permute(3, 2, 0, 1)
        x = F.conv2d(x, weights, stride=stride, padding=weights.shape[-1] // 2)
        norm = f"{name}/norm"
        return F.batch_norm(
            x, self.states[f"{norm}/moving_mean"], self.states[f"{norm}/moving_variance"],
            self.variables[f"{norm}/gamma"], self.variables[f"{norm}/beta"], self.training, momentum=0.1, eps=1e-5,
        )  # fmt: skip

    def conv_norm_relu(self, name, x, stride=1):
        return F.relu(self.conv_norm(name, x, stride))


def resnet18(layers, x):
    x = layers.conv_norm_relu("stem", x)
    for stage in (1, 2, 3, 4):
        for block in (1, 2):
            name, stride = f"stage{stage}/block{block}", 2 if stage > 1 and block == 1 else 1
            y = layers.conv_norm_relu(f"{name}/conv1", x, stride)
            y = layers.conv_norm(f"{name}/conv2", y)
            if stride == 2:
                x = layers.conv_norm(f"{name}/projection", x, stride)
            x = F.relu(y + x)
    return x.mean(dim=(2, 3)) @ layers.variables["logits/weights"] + layers.variables["logits/biases"]


def resnet9(layers, x):
    x = layers.conv_norm_relu("prep", x)
    for number in (1, 2, 3):
        x = F.max_pool2d(layers.conv_norm_relu(f"layer{number}", x), 2)
        if number != 2:
            y = layers.conv_norm_relu(f"layer{number}/residual1", x)
            x = x + layers.conv_norm_relu(f"layer{number}/residual2", y)
    return 0.125 * (F.max_pool2d(x, 4).flatten(1) @ layers.variables["logits/weights"])


@dataclass(frozen=True)
class Model:
    forward: object
    deviations: tuple


MODELS = {
    "resnet18": Model(resnet18, (0.2023, 0.1994, 0.2010)),
    "resnet9": Model(resnet9, (0.2470, 0.2435, 0.2616)),
}


@dataclass
class Trained:
    initial: dict  # {group/name: array}
    arrays: dict  # the same, at the end
    losses: list


def inputs_of(model, images, dtype=torch.float64):
    mean, deviation = (np.array(values).reshape(1, 3, 1, 1) for values in (MEANS, model.deviations))
    return torch.from_numpy((images / 255.0 - mean) / deviation).to(dtype)


def train(name, paths, initial_checkpoint, recipe, towers, steps, dtype=torch.float64):
    """recipe: batch_size, label_smoothing, rate(step), and the arguments of torch.optim.SGD in `sgd`."""
    model = MODELS[name]
    images, labels = read_set(paths)
    variables = {n: v.requires_grad_() for n, v in _parts(initial_checkpoint, "variables", dtype).items()}
    initial_states = _parts(initial_checkpoint, "state", dtype)
    states = [{n: s.clone() for n, s in initial_states.items()} for _ in range(towers)]
    initial = {f"variables/{n}": v.detach().numpy().copy() for n, v in variables.items()}
    initial |= {f"state/{n}": s.numpy() for n, s in initial_states.items()}
    optimizer = torch.optim.SGD(variables.values(), lr=1.0, **recipe.sgd)
    batch, losses = recipe.batch_size, []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = recipe.rate(step)
        optimizer.zero_grad()
        total = 0.0
        for tower in range(towers):
            records = (step * batch * towers + tower * batch + np.arange(batch)) % len(labels)
            logits = model.forward(_Layers(variables, states[tower], True), inputs_of(model, images[records], dtype))
            loss = F.cross_entropy(logits, torch.from_numpy(labels[records]), label_smoothing=recipe.label_smoothing)
            (loss / towers).backward()
            total += float(loss.detach()) / towers
        optimizer.step()
        losses.append(total)
    arrays = {f"variables/{n}": v.detach().numpy() for n, v in variables.items()}
    arrays |= {f"state/{n}": np.mean([s[n].numpy() for s in states], axis=0) for n in initial_states}
    return Trained(initial, arrays, losses)


def count_right(name, checkpoint, images, labels):
    """How many images the network of a checkpoint's variables and states names rightly."""
    layers = _Layers(_parts(checkpoint, "variables"), _parts(checkpoint, "state"), False)
    with torch.no_grad():
        found = MODELS[name].forward(layers, inputs_of(MODELS[name], images)).argmax(dim=1).numpy()
    return int((found == labels).sum())
