"""The networks of cifar10_train --model, and resnet18 of image_train, in float64 PyTorch, without distortion.

Arrays have the program's names and layouts: convolutions [height, width, in, out], dense [in, out]. Each tower normalises
by its own batch and keeps its own running statistics; the checkpoint contains the mean over the towers.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import torch
import torch.nn.functional as F

from programs import load
from reference_cifar10 import read_set

MEANS = (0.4914, 0.4822, 0.4465)
VELOCITIES, SLOW = "optimizer/nesterov_momentum", "optimizer/lookahead"


def _parts(arrays, group):
    """Returns the arrays in a group of a checkpoint, as float64 tensors."""
    prefix = f"{group}/"
    return {n[len(prefix) :]: torch.from_numpy(a.astype(np.float64)) for n, a in arrays.items() if n.startswith(prefix)}


class _Layers:
    """One forward pass over a batch. In training, the pass updates the running statistics in `states`."""

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

    def conv(self, name, x, padding=1):
        return F.conv2d(
            x, self.variables[f"{name}/weights"].permute(3, 2, 0, 1), self.variables.get(f"{name}/biases"), padding=padding
        )

    def shifting_norm(self, name, x, momentum):
        return F.batch_norm(
            x, self.states[f"{name}/moving_mean"], self.states[f"{name}/moving_variance"], None,
            self.variables[f"{name}/beta"], self.training, momentum=momentum, eps=1e-12,
        )  # fmt: skip


def _residual_stages(layers, x, counts, bottlenecks):
    """Computes the stages and the logits. As in ResNet v1.5, the 3x3 convolution of a bottleneck has the stride."""
    for stage, blocks in enumerate(counts, start=1):
        for block in range(1, blocks + 1):
            name, stride = f"stage{stage}/block{block}", 2 if stage > 1 and block == 1 else 1
            if bottlenecks:
                y = layers.conv_norm_relu(f"{name}/conv1", x)
                y = layers.conv_norm_relu(f"{name}/conv2", y, stride)
                y = layers.conv_norm(f"{name}/conv3", y)
            else:
                y = layers.conv_norm_relu(f"{name}/conv1", x, stride)
                y = layers.conv_norm(f"{name}/conv2", y)
            if stride == 2 or (bottlenecks and block == 1):
                x = layers.conv_norm(f"{name}/projection", x, stride)
            x = F.relu(y + x)
    return x.mean(dim=(2, 3)) @ layers.variables["logits/weights"] + layers.variables["logits/biases"]


def resnet18_cifar(layers, x):
    return _residual_stages(layers, layers.conv_norm_relu("stem", x), (2, 2, 2, 2), bottlenecks=False)


def _imagenet_resnet(*counts, bottlenecks):
    def network(layers, x):
        x = F.max_pool2d(layers.conv_norm_relu("stem", x, 2), 3, 2, padding=1)
        return _residual_stages(layers, x, counts, bottlenecks)

    return Model(network, (0.229, 0.224, 0.225), (0.485, 0.456, 0.406))


def resnet9(layers, x):
    x = layers.conv_norm_relu("prep", x)
    for number in (1, 2, 3):
        x = F.max_pool2d(layers.conv_norm_relu(f"layer{number}", x), 2)
        if number != 2:
            y = layers.conv_norm_relu(f"layer{number}/residual1", x)
            x = x + layers.conv_norm_relu(f"layer{number}/residual2", y)
    return 0.125 * (F.max_pool2d(x, 4).flatten(1) @ layers.variables["logits/weights"])


def airbench94(layers, x):
    def norm_gelu(name, x):
        return F.gelu(layers.shifting_norm(f"{name}/norm", x, 0.4))

    x = F.gelu(layers.conv("whiten", x, padding=0))
    for group in ("group1", "group2", "group3"):
        x = norm_gelu(f"{group}/conv1", F.max_pool2d(layers.conv(f"{group}/conv1", x), 2))
        x = norm_gelu(f"{group}/conv2", layers.conv(f"{group}/conv2", x))
    return F.max_pool2d(x, 3).flatten(1) @ layers.variables["logits/weights"] / 9


def airbench96(layers, x):
    def norm(name, x):
        return layers.shifting_norm(f"{name}/norm", x, 0.1)

    x = F.gelu(layers.conv("whiten", x, padding=0))
    for group in ("group1", "group2", "group3"):
        x = F.gelu(norm(f"{group}/conv1", F.max_pool2d(layers.conv(f"{group}/conv1", x), 2)))
        y = F.gelu(norm(f"{group}/conv2", layers.conv(f"{group}/conv2", x)))
        x = F.gelu(x + norm(f"{group}/conv3", layers.conv(f"{group}/conv3", y)))
    return F.max_pool2d(x, 3).flatten(1) @ layers.variables["logits/weights"] / 9


@dataclass(frozen=True)
class Model:
    forward: object
    deviations: tuple
    means: tuple = MEANS
    frozen: tuple = ()  # variables that are not trained


MODELS = {
    "resnet18": _imagenet_resnet(2, 2, 2, 2, bottlenecks=False),
    "resnet34": _imagenet_resnet(3, 4, 6, 3, bottlenecks=False),
    "resnet50": _imagenet_resnet(3, 4, 6, 3, bottlenecks=True),
    "resnet101": _imagenet_resnet(3, 4, 23, 3, bottlenecks=True),
    "resnet152": _imagenet_resnet(3, 8, 36, 3, bottlenecks=True),
    "resnet18_cifar": Model(resnet18_cifar, (0.2023, 0.1994, 0.2010)),
    "resnet9": Model(resnet9, (0.2470, 0.2435, 0.2616)),
    "airbench94": Model(airbench94, (0.2470, 0.2435, 0.2616), frozen=("whiten/weights",)),
    "airbench96": Model(airbench96, (0.2470, 0.2435, 0.2616), frozen=("whiten/weights",)),
}


def inputs_of(model, images):
    mean, deviation = (np.array(values).reshape(1, 3, 1, 1) for values in (model.means, model.deviations))
    return torch.from_numpy((images / 255.0 - mean) / deviation)


def whitening_filters(images):
    """Returns airbench's whitening filters [row, column, channel, filter] for 2x2 patches of the inputs [n, 3, height,
    width]."""
    patches = images.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 4, 5, 1).reshape(-1, 12)
    eigenvalues, vectors = np.linalg.eigh((patches.T @ patches / len(patches)).numpy())
    filters = (vectors / np.sqrt(eigenvalues + 5e-4))[:, ::-1]
    for column in filters.T:  # make positive the first component that is at least half as large as the largest one
        column *= np.sign(column[np.abs(column) >= np.abs(column).max() / 2][0])
    return np.concatenate([filters, -filters], axis=1).reshape(2, 2, 3, 24)


def _optimizer(variables, recipe):
    """Returns a torch.optim.SGD. It has one parameter group for each group of the recipe, with the group's `rate`, and
    one parameter group for all other variables."""
    groups = [dict(group, params=[]) for group in (*recipe.groups, {"pattern": "*"})]
    for name, variable in variables.items():
        if variable.requires_grad:
            next(group for group in groups if fnmatchcase(name, group["pattern"]))["params"].append(variable)
    return torch.optim.SGD(groups, lr=1.0, **recipe.sgd)


def _begin_step(optimizer, recipe, step):
    """Sets the learning rates and requires_grad of all parameters for step `step`. Frozen parameters have no gradient,
    so SGD skips them."""
    for group in optimizer.param_groups:
        group["lr"] = recipe.rate(step) * group.get("rate", 1.0)
        for variable in group["params"]:
            variable.requires_grad_(step < group.get("frozen_after", step + 1))
    optimizer.zero_grad(set_to_none=True)


def _look_ahead(values, slow, done, steps, settings):
    """Returns the values and their slow copies after `done` steps. If lookahead is due after this step, applies it.
    Does the same computation as LookaheadState in airbench94.py. settings: every, decay, power."""
    if done % settings["every"] == 0:
        kept = settings["decay"] * (done / steps) ** settings["power"]
        slow = {name: slow[name].lerp(value, 1.0 - kept) for name, value in values.items()}
    elif done != steps:
        return values, slow
    return slow, slow


@torch.no_grad()
def _follow(optimizer, variables, velocities, found):
    """Returns the variables after a step of SGD: w - rate * (u + momentum * v). v: the velocities that the program
    found; v0: the velocities before the step; u = v - momentum * v0, the gradient."""
    names = {variable: name for name, variable in variables.items()}
    for group in optimizer.param_groups:
        for variable in group["params"]:
            name = names[variable]
            variable -= group["lr"] * (1 + group["momentum"]) * (found[name] - velocities[name])


def step_from(name, before, found, records, recipe, towers, step, steps):
    """Returns the checkpoint's arrays after step `step` of `steps`, computed from the arrays `before` the step, and the
    loss. The variables are computed from the velocities that the program `found`.

    recipe: batch_size, label_smoothing, rate(step), the arguments of torch.optim.SGD in `sgd`, and `groups`. Each group
    has a pattern. A group also has rate, weight_decay and frozen_after if they differ from the defaults. `lookahead`
    (optional): the settings of _look_ahead. records: images and labels."""
    model, (images, labels) = MODELS[name], records
    variables = {n: v.requires_grad_(n not in model.frozen) for n, v in _parts(before, "variables").items()}
    states = [_parts(before, "state") for _ in range(towers)]
    velocities = _parts(before, VELOCITIES)
    optimizer = _optimizer(variables, recipe)
    for n, variable in variables.items():
        if variable.requires_grad:
            optimizer.state[variable]["momentum_buffer"] = velocities[n]  # SGD changes it in place
    _begin_step(optimizer, recipe, step)
    total, batch = 0.0, recipe.batch_size
    for tower in range(towers):
        taken = (step * batch * towers + tower * batch + np.arange(batch)) % len(labels)
        logits = model.forward(_Layers(variables, states[tower], True), inputs_of(model, images[taken]))
        loss = F.cross_entropy(logits, torch.from_numpy(labels[taken]), label_smoothing=recipe.label_smoothing)
        (loss / towers).backward()
        total += float(loss.detach()) / towers
    optimizer.step()
    _follow(optimizer, variables, velocities, _parts(found, VELOCITIES))
    values = {n: v.detach() for n, v in variables.items()}
    values |= {n: sum(tower[n] for tower in states) / towers for n in states[0]}
    arrays = {f"{VELOCITIES}/{n}": v for n, v in velocities.items()}
    if recipe.lookahead:
        values, slow = _look_ahead(values, _parts(before, SLOW), step + 1, steps, recipe.lookahead)
        arrays |= {f"{SLOW}/{n}": s for n, s in slow.items()}
    arrays |= {f"{'variables' if n in variables else 'state'}/{n}": v for n, v in values.items()}
    return {n: a.numpy() for n, a in arrays.items()}, total


def first_gradients(name, initial, images, labels, autocast=False):
    """Returns the gradients {variable: array} of one batch at the variables of a checkpoint, and the loss. Computes in
    float64, or in float32 with PyTorch's autocast to bfloat16."""
    model, number = MODELS[name], torch.float32 if autocast else torch.float64
    variables = {n: v.to(number).requires_grad_(n not in model.frozen) for n, v in _parts(initial, "variables").items()}
    states = {n: v.to(number) for n, v in _parts(initial, "state").items()}
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        logits = model.forward(_Layers(variables, states, True), inputs_of(model, images).to(number))
    loss = F.cross_entropy(logits.to(number), torch.from_numpy(labels))
    loss.backward()
    return {n: v.grad.double().numpy() for n, v in variables.items() if v.grad is not None}, float(loss.detach())


@torch.no_grad()
def logits(name, arrays, images, autocast=False):
    """Returns the logits [image, class] of a trained network. Computes in float64, or in float32 with PyTorch's
    autocast to bfloat16."""
    model, number = MODELS[name], torch.float32 if autocast else torch.float64
    groups = ({n: v.to(number) for n, v in _parts(arrays, group).items()} for group in ("variables", "state"))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        return model.forward(_Layers(*groups, False), inputs_of(model, images).to(number)).double().numpy()


def count_right(name, checkpoint, images, labels, augmented=False):
    """Returns how many images the network of a checkpoint classifies correctly. augmented: uses the mean of the logits
    over mirrored and shifted views, as level 2 of airbench does."""
    arrays = load(checkpoint)
    layers = _Layers(_parts(arrays, "variables"), _parts(arrays, "state"), False)
    model = MODELS[name]

    def logits_both_ways(x):
        return (model.forward(layers, x) + model.forward(layers, x.flip(3))) / 2

    with torch.no_grad():
        x = inputs_of(model, images)
        if augmented:
            padded = F.pad(x, (1, 1, 1, 1), "reflect")
            shifted = (logits_both_ways(padded[:, :, at : at + 32, at : at + 32]) for at in (0, 2))
            logits = 0.5 * logits_both_ways(x) + 0.25 * sum(shifted)
        else:
            logits = model.forward(layers, x)
    return int((logits.argmax(dim=1).numpy() == labels).sum())
