"""Starts a training program as its command says, but for few steps. The commands of the documents run with it.

  tests/acceptance/short_training.py PROGRAM OPTION...

SHORT_TRAININGS in the environment holds {train directory: [new, old]}. The program multiplies the numbers of steps of
that run by new / old, but gives at least 1: --max-steps, --eval-every, --warmup-steps and the like, from the command line,
the --config file or the environment. A train directory that is not in it gets at most STEPS steps. Large networks also get
smaller batches.
"""

import json
import math
import os
import pathlib
import re
import sys

STEPS = 20
STEPS_OF_LARGE = 4  # of networks that take more than some milliseconds an image
LARGE = re.compile(r"resnet|airbench|vgg")
BATCHES = ("batch-size", "global-batch", "micro-batch")
DEFAULTS = {"max-steps": "10000"}  # more than any cap: a program without --max-steps gets the cap
DEFAULTS_OF_IMAGES = {"model": "resnet50", "batch-size": "32"}  # of image_train
KEPT = ("decay-steps", "muon-steps")  # they end in -steps, and are no steps of the run

_NOT_A_RUN = ("--help", "-h", "--version", "--document", "--preflight")


def read_config(path):
    """{option: value} of a --config file; empty if there is no such file."""
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split("#")[0].split("=", 1) for line in lines if "=" in line.split("#")[0])
    return {name.strip().replace("_", "-"): value.strip() for name, value in pairs}


def command_line(words):
    """{option: value} of the words, the first value of each option; flags are left out."""
    given = {}
    for i, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        if equals:
            given[name.replace("_", "-")] = value
        elif i + 1 < len(words) and not words[i + 1].startswith("--"):
            given[name.replace("_", "-")] = words[i + 1]
    return given


def options_of(program, words, environment):
    """{option: value} as the program finds them: command line, configuration file, environment, defaults."""
    given = command_line(words)
    variables = {
        name.removeprefix("CARILLON_").lower().replace("_", "-"): value
        for name, value in environment.items()
        if name.startswith("CARILLON_")
    }
    config = given.get("config", variables.get("config"))
    defaults = DEFAULTS | (DEFAULTS_OF_IMAGES if pathlib.Path(program).name == "image_train" else {})
    return defaults | variables | (read_config(config) if config else {}) | given


def is_large(options):
    return bool(LARGE.search(options.get("model", "")))


def cap(options):
    """[new, old]: by which the steps of a run with these options are multiplied."""
    steps = int(options["max-steps"])
    largest = STEPS_OF_LARGE if is_large(options) else STEPS
    return [min(steps, largest), steps]


def shortened(steps, scale):
    new, old = scale
    return max(1, steps * new // old) if steps > 0 and new < old else steps


def smaller_batches(options):
    """The sizes of the batches, divided by one number: a power of two, up to 8, that divides all of them. So the number of
    micro-batches stays, and each has two samples or more."""
    sizes = {name: int(options.get(name, 0)) for name in BATCHES}
    if sizes["global-batch"]:
        del sizes["batch-size"]
    sizes = {name: size for name, size in sizes.items() if size}
    divisor = math.gcd(8, *sizes.values())
    while divisor > 1 and min(sizes.values()) < 2 * divisor:
        divisor //= 2
    return {name: str(size // divisor) for name, size in sizes.items()}


def replaced(words, options, scale):
    """The words with the new numbers of steps."""
    changes = {
        name: str(shortened(int(value), scale))
        for name, value in options.items()
        if name.endswith(("-every", "-steps")) and name not in KEPT and value.isdigit()
    }
    if is_large(options):
        changes |= smaller_batches(options)
    kept, skip = [], False
    for i, word in enumerate(words):
        name, equals, _ = word[2:].partition("=")
        if skip or (word.startswith("--") and name.replace("_", "-") in changes):
            skip = not skip and not equals and i + 1 < len(words)
        else:
            kept.append(word)
    return kept + [f"--{name}={value}" for name, value in changes.items()]


def of_carillon(words):
    """`carillon train` with a small budget; its other commands as they are."""
    if words[:1] != ["train"]:
        return words
    kept, skip = [], False
    for word in words:
        if skip or word.startswith("--minutes"):
            skip = word == "--minutes"
        else:
            kept.append(word)
    return [*kept, "--minutes", "0.05", f"--max-steps={STEPS_OF_LARGE}"]


def main(program, *words):
    if pathlib.Path(program).name == "carillon":
        os.execv(program, [program, *of_carillon(list(words))])
    if not any(word in _NOT_A_RUN for word in words) and command_line(words).get("model") != "help":
        options = options_of(program, words, os.environ)
        scales = json.loads(os.environ.get("SHORT_TRAININGS", "{}"))
        words = replaced(words, options, scales.get(options.get("train-dir", "").rstrip("/")) or cap(options))
    os.execv(program, [program, *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
