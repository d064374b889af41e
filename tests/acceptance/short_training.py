"""Runs a training program with fewer steps than its command states. check_documents.py uses it for the commands of
documents.

  tests/acceptance/short_training.py PROGRAM OPTION...

SHORT_TRAININGS in the environment holds {train directory: [new, old]}. In runs with one of these train directories, the
script multiplies all options that count steps (--max-steps, --eval-every, --warmup-steps and others) by new / old. The
result is at least 1. The options may be in the command line, the --config file or the environment. Runs with another
train directory get at most STEPS steps. Large networks also get smaller batches.
"""

import json
import math
import os
import pathlib
import re
import sys

STEPS = 20
STEPS_OF_LARGE = 4  # number of steps of large networks, which need more than some milliseconds per image
LARGE = re.compile(r"resnet|airbench|vgg")
BATCHES = ("batch-size", "global-batch", "micro-batch")
DEFAULTS = {"max-steps": "10000"}  # without --max-steps; larger than STEPS, so that the run is shortened to STEPS
DEFAULTS_OF_IMAGES = {"model": "resnet50", "batch-size": "32"}  # of image_train
KEPT = ("decay-steps", "muon-steps")  # these options end in -steps, but count no steps of the run

_NOT_A_RUN = ("--help", "-h", "--version", "--document", "--preflight")


def read_config(path):
    """Returns {option: value} of a --config file; empty if there is no such file."""
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split("#")[0].split("=", 1) for line in lines if "=" in line.split("#")[0])
    return {name.strip().replace("_", "-"): value.strip() for name, value in pairs}


def command_line(words):
    """Returns {option: value} of a command's words. If an option occurs more than once, its first value counts. Options
    without a value are omitted."""
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
    """Returns {option: value}: the options that apply to the program, from the command line, the configuration file,
    the environment and the defaults."""
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
    """Returns [new, old]. The numbers of steps of a run with these options are multiplied by new / old."""
    steps = int(options["max-steps"])
    largest = STEPS_OF_LARGE if is_large(options) else STEPS
    return [min(steps, largest), steps]


def shortened(steps, scale):
    new, old = scale
    return max(1, steps * new // old) if steps > 0 and new < old else steps


def smaller_batches(options):
    """Returns the batch sizes, all divided by the same power of two (at most 8). The number of micro-batches does not
    change, and each micro-batch keeps at least two samples."""
    sizes = {name: int(options.get(name, 0)) for name in BATCHES}
    if sizes["global-batch"]:
        del sizes["batch-size"]
    sizes = {name: size for name, size in sizes.items() if size}
    divisor = math.gcd(8, *sizes.values())
    while divisor > 1 and min(sizes.values()) < 2 * divisor:
        divisor //= 2
    return {name: str(size // divisor) for name, size in sizes.items()}


def replaced(words, options, scale):
    """Returns the words of the command with smaller numbers of steps and smaller batches."""
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
    """Returns the words of a `carillon` command. Adds a small time budget to `carillon train`; does not change other
    commands."""
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
