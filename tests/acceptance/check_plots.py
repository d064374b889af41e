"""Checks jobs/plot_runs.py: reads the curves of short runs with an XML parser, and tries input that the script must
reject."""

import pathlib
import re
import sys
import xml.etree.ElementTree

import numpy as np

import programs
from programs import SCALED, Result

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs/plot_runs.py"
SVG = "{http://www.w3.org/2000/svg}"


def check(context):
    """plots"""
    data = context.small_set(1000, 500)
    common = (*SCALED[:2], "--batch-size", 20, "--summary-every", 0, "--checkpoint-every", 0, "--log-every", 2)
    folder = context.directory("plots")
    runs = [folder / "fast <&>", folder / "slow"]
    for run, rate in zip(runs, (0.1, 0.01)):
        context.train(
            *common, "--learning-rate", rate, "--max-steps", 80, "--eval-every", 10, "--eval-data", data / "test-*",
            data=data / "train-*", train_dir=run,
        )  # fmt: skip
    picture = folder / "curves.svg"

    def plot(*arguments, output=picture):
        return context.run_command([sys.executable, str(SCRIPT), *map(str, arguments), "-o", str(output)])

    done = plot(runs[0], runs[1] / "metrics.jsonl", "--window", 1)
    names = ["fast <&>", "slow"]
    panels = _panels(picture) if done.code == 0 else []
    found = [list(panel) for panel in panels]
    yield Result("plots: one curve per run, for loss and accuracy", found == [names, names], f"{found}{done.errors}")
    for title, field, panel in zip(("loss", "accuracy"), ("loss", "eval_precision"), panels):
        distance = _distance([_points(run, field) for run in runs], list(panel.values()))
        yield Result(f"plots: {title} agrees with its axes", distance < 0.2, f"{distance:.2f} px off")

    whole = picture.read_bytes()
    metrics = runs[1] / "metrics.jsonl"
    text = metrics.read_text()
    metrics.write_text(text + '{"step": 80, "lo')
    done = plot(*runs, "--window", 1)
    noted = done.lines == [f"note: {metrics}: skipped line {text.count(chr(10)) + 1}, which is damaged, and all after it"]
    same = done.code == 0 and picture.read_bytes() == whole
    yield Result("plots: a truncated last line is noted and skipped", noted and same, f"{done.errors.strip()}")

    metrics.write_text("half a line\n" + text)
    (folder / "empty").mkdir()
    (folder / "empty/metrics.jsonl").touch()
    cases = {
        "a missing file": (66, [runs[0], folder / "none"], picture, f"{folder / 'none'}: no such file"),
        "a damaged line within": (65, [runs[1]], picture, f"{metrics}: line 1 is not a JSON object"),
        "an empty run": (65, [folder / "empty"], picture, "empty/metrics.jsonl: contains no loss and no evaluation"),
        "a missing output folder": (74, [runs[0]], folder / "none/a.svg", "none/a.svg: cannot be written: "),
        "a window of 0": (64, [runs[0], "--window", 0], picture, "--window"),
    }
    for name, (code, arguments, output, words) in cases.items():
        done = plot(*arguments, output=output)
        wrong = done.complaint(code, ["plot_runs.py: ", words])
        yield Result(f"plots: {name} is reported in one line", not wrong, wrong or done.lines[0])
    yield Result("plots: rejected input does not change the picture", picture.read_bytes() == whole, "")


def _points(run, field):
    return np.array([(line["step"], line[field]) for line in programs.metrics(run) if field in line])


def _panels(picture):
    """Returns [{run: [(x, y)]}], a dictionary for each panel of the picture. Returns [] if the picture is not XML."""
    try:
        groups = xml.etree.ElementTree.parse(picture).iter(f"{SVG}g")
    except xml.etree.ElementTree.ParseError:
        return []
    panels = []
    for group in groups:
        name = group.find(f"{SVG}title").text
        if not panels or name in panels[-1]:
            panels.append({})
        path = group.find(f"{SVG}path").get("d")
        panels[-1][name] = np.array([[float(part) for part in point] for point in re.findall(r"([\d.]+) ([\d.]+)", path)])
    return panels


def _distance(curves, drawn):
    """Fits x of the drawn points by a linear function of the steps, and y by a linear function of the values or of
    their logarithms. Returns the largest distance of a point to the fit, in pixels; infinity if points are missing or
    an axis has the wrong direction."""
    if [len(curve) for curve in curves] != [len(points) for points in drawn]:
        return np.inf
    steps, values = np.concatenate(curves).T
    x, y = np.concatenate(drawn).T
    falls = all(np.polyfit(of, at, 1)[0] * sign > 0 for of, at, sign in ((steps, x, 1), (values, y, -1)))
    off = lambda of, at: np.abs(np.polyval(np.polyfit(of, at, 1), of) - at).max()
    return max(off(steps, x), min(off(values, y), off(np.log(values), y))) if falls else np.inf


if __name__ == "__main__":
    programs.main(check)
