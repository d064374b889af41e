#!/usr/bin/env python3
"""Writes tests/data/samples/optimizers.txt: results of PyTorch's optimisers and schedules for a small problem, in float64.
LARS and LAMB, which PyTorch lacks, follow their papers. Gradients are clipped by PyTorch's clip_grad_norm_. Lookahead and Muon follow their authors' code.

    tests/options/make_optimizer_golden.py > tests/data/samples/optimizers.txt

Element i of variable p (0, 1, 2: first/weights [3, 2], first/biases [2], second/weights [2, 2]) starts at cos(2 e), e = 10 p + i, and has at
step s the gradient c (w - sin(e)) + 0.3 cos(e + 0.7 s) with c = 0.5 + 0.25 (e mod 5); weights have an L2 factor of 0.02. Muon's
problem has stem/weights [2, 3], conv/weights [3, 1, 2, 4], conv/biases [4], dense/weights [2, 5] and logits/weights [5,
2]. Two lines of the file are a case: the first has the options of a training, the second the values of all variables
after 50 steps, in the order of the variables.
"""
import argparse
import fnmatch
import math
import shlex

import numpy
import torch

STEPS = 50
VARIABLES = {"first/weights": (3, 2), "first/biases": (2,), "second/weights": (2, 2)}
VARIABLES_OF_MUON = {"stem/weights": (2, 3), "conv/weights": (3, 1, 2, 4), "conv/biases": (4,), "dense/weights": (2, 5),
                     "logits/weights": (5, 2)}
L2 = 0.02

RULES = [
    "--optimizer sgd",
    "--optimizer momentum",
    "--optimizer nesterov --momentum 0.7",
    "--optimizer momentum --momentum 0.8 --dampening 0.4",
    "--optimizer adamw",
    "--optimizer adamw --adam-beta1 0.7 --adam-beta2 0.9 --adam-epsilon 0.05",
    "--optimizer lars --momentum 0.8 --lars-coefficient 0.5",
    "--optimizer lamb --adam-beta1 0.8 --adam-beta2 0.95 --adam-epsilon 0.001",
]
SCHEDULES = [
    "--schedule exponential --learning-rate 0.05 --learning-rate-decay 0.5 --decay-steps 20",
    "--schedule constant --learning-rate 0.02",
    "--schedule step --learning-rate 0.05 --milestones 15,35 --milestone-factor 0.3",
    "--schedule polynomial --learning-rate 0.05 --schedule-power 2 --schedule-steps 45 --final-learning-rate 0.004",
    "--schedule cosine --learning-rate 0.05 --max-steps 50",
    "--schedule triangular --schedule-knots 0:0.01,20:0.06,45:0.002",
]
WARM_UP = "--warmup-steps 12 --warmup-from 0.002"
DECAY = "--weight-decay 0.1"
GROUPS = ("--group '*/biases: rate=3, decay=0, frozen-until=7' --group 'first/*: decay=0.2, frozen-after=30' "
          "--group '*: rate=0.5'")

MUONS = [
    "--optimizer muon",
    "--optimizer muon --muon-momentum 0.8 --muon-steps 3 --adam-beta1 0.8 --adam-epsilon 0.01",
    "--optimizer muon-nesterov --momentum 0.85 --muon-momentum 0.6 --muon-steps 3 --muon-normalize true",
]
GROUPS_OF_MUON = ("--group 'dense/*: muon=0, rate=0.5' --group 'logits/weights: muon=1, frozen-until=4' "
                  "--group 'conv/weights: decay=0.2, frozen-after=40'")
LOOKAHEADS = [
    "--lookahead-every 5 --lookahead-decay 0.7737809375 --lookahead-power 3 --max-steps 50",
    "--lookahead-every 7 --lookahead-decay 0.9 --lookahead-power 2 --lookahead-steps 50",
    "--lookahead-every 5 --lookahead-decay 0.5",
]


CLIP = "--clip-norm 0.6"
EXCLUSIONS = [
    "--decay-exclude none",
    "--decay-exclude 'second/*'",
    "--decay-exclude none 'second/*'",
]


def cases():
    for rule in RULES:
        yield f"{rule} {SCHEDULES[1]}"
        yield f"{rule} {SCHEDULES[4]} {WARM_UP} {DECAY}"
        yield f"{rule} {SCHEDULES[0]} {DECAY} {GROUPS}"
    for schedule in SCHEDULES:
        yield f"{RULES[1]} {schedule}"
        yield f"{RULES[1]} {schedule} {WARM_UP}"
    for muon in MUONS:
        yield f"{muon} {SCHEDULES[1]}"
        yield f"{muon} {SCHEDULES[4]} {WARM_UP} {DECAY}"
        yield f"{muon} {SCHEDULES[0]} {DECAY} {GROUPS_OF_MUON}"
    for lookahead in LOOKAHEADS:
        yield f"{RULES[2]} {SCHEDULES[1]} {lookahead}"
        yield f"{RULES[4]} {SCHEDULES[1]} {DECAY} {GROUPS} {lookahead}"
    for rule in RULES:
        yield f"{rule} {SCHEDULES[1]} {DECAY} {CLIP}"
    yield f"{RULES[1]} {SCHEDULES[0]} {DECAY} {GROUPS} {CLIP}"
    for muon in MUONS:
        yield f"{muon} {SCHEDULES[1]} {DECAY} {CLIP}"
    for exclusion in EXCLUSIONS:
        for rule in (RULES[1], RULES[4], RULES[6], RULES[7]):
            yield f"{rule} {SCHEDULES[1]} {DECAY} {exclusion}"


def parse(case):
    parser = argparse.ArgumentParser()
    for name in ("optimizer", "schedule", "milestones", "schedule-knots", "muon-normalize"):
        parser.add_argument("--" + name)
    for name, value in (("momentum", 0.9), ("dampening", 0.0), ("adam-beta1", 0.9), ("adam-beta2", 0.999),
                        ("adam-epsilon", 1e-8), ("lars-coefficient", 0.001), ("muon-momentum", 0.95), ("muon-steps", 5), ("weight-decay", 0.0), ("learning-rate", None),
                        ("learning-rate-decay", None), ("decay-steps", None), ("warmup-steps", 0),
                        ("warmup-from", 0.0), ("schedule-steps", None), ("final-learning-rate", 0.0),
                        ("schedule-power", 1.0), ("milestone-factor", 0.1), ("max-steps", None),
                        ("clip-norm", 0.0), ("lookahead-every", 0), ("lookahead-decay", 0.5), ("lookahead-power", 0.0), ("lookahead-steps", None)):
        parser.add_argument("--" + name, type=float, default=value)
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--decay-exclude", nargs="*", default=[])
    return parser.parse_args(shlex.split(case))


def rates(o):
    """Returns the learning rate of each step. If PyTorch has the schedule, PyTorch's scheduler computes it."""
    warm = int(o.warmup_steps)
    base = 1.0 if o.learning_rate is None else o.learning_rate
    optimizer = torch.optim.SGD([torch.zeros(1, dtype=torch.float64)], lr=base)
    schedulers = torch.optim.lr_scheduler
    end = o.schedule_steps or o.max_steps
    if o.schedule == "constant":
        scheduler = schedulers.ConstantLR(optimizer, factor=1.0)
    elif o.schedule == "exponential":
        scheduler = schedulers.ExponentialLR(optimizer, o.learning_rate_decay ** (1.0 / o.decay_steps))
    elif o.schedule == "step":
        milestones = [int(text) - warm for text in o.milestones.split(",")]
        scheduler = schedulers.MultiStepLR(optimizer, milestones, o.milestone_factor)
    elif o.schedule == "cosine":
        scheduler = schedulers.CosineAnnealingLR(optimizer, int(end) - warm, eta_min=o.final_learning_rate)
    elif o.schedule == "polynomial":  # PolynomialLR ends at 0, so the final rate is added later
        optimizer.param_groups[0]["lr"] = base - o.final_learning_rate
        scheduler = schedulers.PolynomialLR(optimizer, int(end) - warm, o.schedule_power)
    else:
        knots = numpy.array([[float(x) for x in knot.split(":")] for knot in o.schedule_knots.split(",")])
        scheduler = schedulers.LambdaLR(optimizer, lambda s: numpy.interp(s + warm, knots[:, 0], knots[:, 1]))
    added = o.final_learning_rate if o.schedule == "polynomial" else 0.0
    after = []
    for _ in range(STEPS):
        after.append(scheduler.get_last_lr()[0] + added)
        optimizer.step()
        scheduler.step()
    return list(numpy.linspace(o.warmup_from, after[0], warm, endpoint=False)) + after[:STEPS - warm]


def group_of(o, name):
    for text in o.group:
        pattern, settings = text.split(":")
        if fnmatch.fnmatchcase(name, pattern):
            return dict((key.strip(), float(value)) for key, value in (s.split("=") for s in settings.split(",")))
    return {}


class ByNorms(torch.optim.Optimizer):
    """LARS (You and others, 2017) and LAMB (You and others, 2020). For vectors, such as biases, the update uses no
    trust ratio and, by default, no weight decay."""

    def __init__(self, settings, options):
        super().__init__(settings, {"lr": 1.0})
        self.options = options

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is not None:
                    getattr(self, self.options.optimizer)(w, w.grad, group, self.state[w])

    def lars(self, w, g, group, state):
        decay, size, slope = group["weight_decay"], w.norm(), g.norm()
        ratio = self.options.lars_coefficient * size / (slope + decay * size) if group["ratio"] else 1.0
        state["v"] = self.options.momentum * state.get("v", 0.0) + group["lr"] * ratio * (g + decay * w)
        w -= state["v"]

    def lamb(self, w, g, group, state):
        beta1, beta2, age = self.options.adam_beta1, self.options.adam_beta2, state.get("age", 0) + 1
        state["age"] = age
        state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * g
        state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * g * g
        root = torch.sqrt(state["v"] / (1 - beta2 ** age)) + self.options.adam_epsilon
        direction = state["m"] / (1 - beta1 ** age) / root + group["weight_decay"] * w
        w -= group["lr"] * (w.norm() / direction.norm() if group["ratio"] else 1.0) * direction


def zeropower_via_newtonschulz5(G, steps):
    """The function of the same name in KellerJordan/Muon and airbench94_muon.py, but not computed in bfloat16."""
    a, b, c = (3.4445, -4.7750, 2.0315)
    X = G
    if G.size(-2) > G.size(-1):
        X = X.mT
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        A = X @ X.mT
        B = b * A + c * A @ A
        X = a * X + B @ X
    if G.size(-2) > G.size(-1):
        X = X.mT
    return X


def as_pytorchs(variable):
    """Returns the variable in PyTorch's layout: [in, out] becomes [out, in]; [height, width, in, out] becomes [out, in,
    height, width]."""
    return variable.T if variable.ndim == 2 else variable.permute(3, 2, 0, 1)


class Muon(torch.optim.Optimizer):
    """Muon, for variables in TensorFlow's layout."""

    def __init__(self, settings, options):
        super().__init__(settings, {"lr": 1.0})
        self.options = options

    @torch.no_grad()
    def step(self):
        update = self.airbench if self.options.muon_normalize else self.decayed
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is not None:
                    buffer = self.state[w].setdefault("momentum_buffer", torch.zeros_like(as_pytorchs(w)))
                    update(as_pytorchs(w), as_pytorchs(w.grad), buffer, group)

    def decayed(self, p, grad, momentum, group):
        beta = self.options.muon_momentum
        momentum.lerp_(grad, 1 - beta)
        update = grad.lerp(momentum, beta)
        flat = update.reshape(len(update), -1)
        flat = zeropower_via_newtonschulz5(flat, int(self.options.muon_steps))
        flat = flat * max(1, grad.size(-2) / grad.size(-1)) ** 0.5
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(flat.reshape(p.shape), alpha=-group["lr"])

    def airbench(self, p, g, buf, group):
        momentum = self.options.muon_momentum
        buf.mul_(momentum).add_(g)
        g = g.add(buf, alpha=momentum)
        p.mul_(len(p) ** 0.5 / p.norm())
        p.mul_(1 - group["lr"] * group["weight_decay"])  # 0 unless the group has a decay
        p.add_(zeropower_via_newtonschulz5(g.reshape(len(g), -1), int(self.options.muon_steps)).view(g.shape), alpha=-group["lr"])


class Both:
    """Two optimisers that act as one. The groups are in the order of `names`."""

    def __init__(self, parts, names, names_of_parts):
        self.parts = parts
        found = {name: group for part, own in zip(parts, names_of_parts) for name, group in zip(own, part.param_groups)}
        self.param_groups = [found[name] for name in names]

    def step(self):
        for part in self.parts:
            part.step()


def muon_beside_others(o, groups, settings, variables):
    """Uses Muon for hidden matrices and another optimiser for the other variables. All matrices except the first and
    the last are hidden, unless a parameter group selects another rule for them."""
    matrices = [name for name, variable in variables.items() if variable.ndim > 1]
    is_hidden = {name: groups[name].get("muon", name in matrices[1:-1]) for name in variables}
    names = list(variables)
    hidden, others = [n for n in names if is_hidden[n]], [n for n in names if not is_hidden[n]]
    for name, s in zip(names, settings):
        if is_hidden[name] and o.muon_normalize:
            s["weight_decay"] = groups[name].get("decay", 0.0)
    of = dict(zip(names, settings))
    muon = Muon([of[n] for n in hidden], o)
    if o.optimizer == "muon":
        other = torch.optim.AdamW([of[n] for n in others], lr=1.0, betas=(o.adam_beta1, o.adam_beta2), eps=o.adam_epsilon)
    else:
        other = torch.optim.SGD([of[n] for n in others], lr=1.0, momentum=o.momentum, nesterov=True)
    return Both([muon, other], names, [hidden, others])


class LookaheadState:
    """The class of the same name in airbench's legacy/airbench94.py, changed for a dictionary of variables, which all
    are floating-point."""

    def __init__(self, net):
        self.net_ema = {k: v.detach().clone() for k, v in net.items()}

    @torch.no_grad()
    def update(self, net, decay):
        for ema_param, net_param in zip(self.net_ema.values(), net.values()):
            ema_param.lerp_(net_param, 1 - decay)
            net_param.copy_(ema_param)


def look_ahead(state, net, o, current_steps):
    """Applies lookahead after a step, with airbench's schedule. With power 0, this is the original lookahead with alpha
    = 1 - decay."""
    total = o.lookahead_steps or o.max_steps or 1
    alpha_schedule = o.lookahead_decay * (torch.arange(STEPS + 1, dtype=torch.float64) / total) ** o.lookahead_power
    if current_steps % o.lookahead_every == 0:
        state.update(net, decay=alpha_schedule[current_steps].item())
    if current_steps == o.lookahead_steps or current_steps == o.max_steps:
        state.update(net, decay=1.0)


def trained(case):
    o = parse(case)
    shapes = VARIABLES_OF_MUON if o.optimizer.startswith("muon") else VARIABLES
    elements = {name: torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape) + 10 * p
                for p, (name, shape) in enumerate(shapes.items())}
    variables = {name: torch.nn.Parameter(torch.cos(2 * e)) for name, e in elements.items()}
    groups = {name: group_of(o, name) for name in variables}
    by_norms = o.optimizer in ("lars", "lamb")
    excluded = {name for name in variables if any(fnmatch.fnmatchcase(name, pattern) for pattern in o.decay_exclude)}
    vectors_decay = o.optimizer not in ("adamw", "lars", "lamb") or "none" in o.decay_exclude
    decays = {name: 0.0 if name in excluded or (name.endswith("biases") and not vectors_decay) else o.weight_decay
              for name in variables}
    settings = [{"params": [variables[name]], "weight_decay": groups[name].get("decay", decays[name]),
                 "ratio": name.endswith("weights")} for name in variables]
    if o.optimizer == "adamw":
        optimizer = torch.optim.AdamW(settings, lr=1.0, betas=(o.adam_beta1, o.adam_beta2), eps=o.adam_epsilon)
    elif o.optimizer.startswith("muon"):
        optimizer = muon_beside_others(o, groups, settings, variables)
    elif by_norms:
        optimizer = ByNorms(settings, o)
    else:
        momentum = o.momentum if o.optimizer in ("momentum", "nesterov") else 0.0
        optimizer = torch.optim.SGD(settings, lr=1.0, momentum=momentum, dampening=o.dampening,
                                    nesterov=o.optimizer == "nesterov")
    lookahead = LookaheadState(variables)
    for step, rate in enumerate(rates(o)):
        for group, (name, variable) in zip(optimizer.param_groups, variables.items()):
            group["lr"] = rate * groups[name].get("rate", 1.0)
            trains = groups[name].get("frozen-until", 0) <= step < groups[name].get("frozen-after", math.inf)
            e, w = elements[name], variable.detach()
            gradient = (0.5 + 0.25 * (e % 5)) * (w - torch.sin(e)) + 0.3 * torch.cos(e + 0.7 * step)
            has_l2 = name.endswith("weights") and name not in excluded
            variable.grad = gradient + (L2 * w if has_l2 else 0.0) if trains else None
        if o.clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(list(variables.values()), o.clip_norm)
        optimizer.step()
        if o.lookahead_every > 0:
            look_ahead(lookahead, variables, o, step + 1)
    return torch.cat([variable.detach().flatten() for variable in variables.values()])


if __name__ == "__main__":
    for options in cases():
        print(options)
        print(*(f"{value:.12g}" for value in trained(options).tolist()))
