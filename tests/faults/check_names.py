"""Tests names that contain characters which a terminal does not show, or which change the order of a line. All outputs
must escape these characters."""

import json
import shutil

import numpy as np
from cases import results

import programs
from png import png
from processes import TIMEOUT
from programs import Result

HIDDEN = "\u202e\u2028\u200b"
NAME = f"cat{HIDDEN}gnp"
PICTURES = ("--model", "resnet9", "--image-size", 16, "--batch-size", 2, "--distort=false", "--threads", 1)


def check(context):
    """names"""
    yield from results(context, (_hidden_characters,))


def _hidden_characters(context, data):
    """names with hidden characters"""
    source, records, run = (context.directory(NAME) for _ in range(3))
    for level, name in enumerate((NAME, "dog")):
        (source / name).mkdir(parents=True)
        for i in range(12):
            (source / name / f"{i}{HIDDEN}.png").write_bytes(png(np.full((16, 16, 3), 50 * level + i, np.uint8)))
    picture = source / NAME / f"0{HIDDEN}.png"
    damaged = context.directory(NAME)
    shutil.copytree(source, damaged)
    (damaged / NAME / f"12{HIDDEN}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    report = context.directory(NAME).with_suffix(".json")
    commands = (
        ("tfrecord_convert", "images", "--input", damaged, "--output", records, "--skip-damaged"),
        ("tfrecord_inspect", next_to(records, "train-*")),
        ("image_train", "--data", records / "train-*", "--train-dir", run, *PICTURES, "--max-steps", 1),
        ("image_train", "--data", records / "train-*", "--train-dir", run, *PICTURES, "--max-steps", 1),
        ("image_eval", "--data", records / "train-*", "--checkpoint", run, "--report", report),
        ("checkpoint_tool", "inspect", run),
        ("checkpoint_tool", "verify", run / NAME),
        ("carillon_predict", "--checkpoint", run, picture),
        ("carillon_predict", "--checkpoint", run, "--json", picture),
        ("carillon", "train", source, "--train-dir", context.directory(NAME), "--data-dir", context.directory(NAME),
         "--dry-run", "--minutes", 1),
    )  # fmt: skip
    for program, *words in commands:
        words = [word() if callable(word) else word for word in words]
        done = context.run(program, *words, expect=66 if words[0] == "verify" else 0, timeout=TIMEOUT)
        shown = done.output + done.errors
        found = [f"U+{ord(mark):04X}" for mark in HIDDEN if mark in shown]
        wrong = f"{found} in its output" if found else "" if "cat" in shown else f"names nothing: {shown[-200:]}"
        yield Result(f"faults: {program} {words[0]} with hidden characters in names", not wrong, wrong or "escaped")
    text = report.read_text()
    names = [one["name"] for one in json.loads(text)["classes"]]
    passed = NAME in names and not any(mark in text for mark in HIDDEN)
    yield Result("faults: a report holds the escaped name, and JSON readers read it", passed, str(names))


def next_to(folder, pattern):
    """Returns a function. Each call of this function returns the first file that then matches the pattern."""
    return lambda: next(folder.glob(pattern))


if __name__ == "__main__":
    programs.main(check)
