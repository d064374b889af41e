#!/usr/bin/env python3
"""Draws the learning curves of one or more runs into one SVG file, which any browser can show.

  jobs/plot_runs.py runs/mnist runs/lenet -o curves.svg

RUN: a train directory, or a metrics.jsonl (its fields: docs/developer-guide/file-formats.md).
The upper plot has the loss of the logged steps (faint) and its moving mean. Its axis is logarithmic if the highest loss
is more than 8 times the lowest. The lower plot has the accuracy of the evaluations. Damaged lines at the end of a file,
for example of a run in progress, are skipped with a note. Requires no Python packages.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import secrets
import sys
from xml.sax.saxutils import escape

USAGE, BAD_DATA, NO_INPUT, IO_ERROR = 64, 65, 66, 74  # exit codes of all programs: docs/user-guide/troubleshooting.md

WIDTH, PANEL_HEIGHT = 900, 300
LEFT, RIGHT, TOP, GAP, BOTTOM = 70, 20, 16, 34, 46
LEGEND_ROW = 19
# The colours of Okabe and Ito, which colour-blind readers can distinguish. If there are more runs than colours, the
# remaining runs have the same colours with dashed lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333")
DASHES = ("", "7 3", "2 3")
MAX_POINTS = 900  # most points that a curve may have: about one per pixel
MAX_DOTS = 60  # a curve with more evaluations than this has no dots


class Refused(Exception):
    """An error that ends the program with an exit code and a message of one line."""

    def __init__(self, code, line):
        super().__init__(line)
        self.code = code


class Run:
    """The curves of a run: lists of (step, value), sorted by step."""

    def __init__(self, path, losses, evaluations):
        self.path, self.losses, self.evaluations = path, sorted(losses), sorted(evaluations)
        self.name = ""


def shown(text):
    """Replaces by U+FFFD each character that XML does not allow, that is invisible, or that would disturb a
    terminal."""
    return "".join(c if c == " " or c.isprintable() else "\ufffd" for c in str(text))


def read_lines(path):
    """Returns the JSON objects in the lines of the file. Skips damaged lines at its end."""
    try:
        texts = path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        raise Refused(NO_INPUT, f"{path}: no such file") from None
    except OSError as error:
        raise Refused(IO_ERROR, f"{path}: cannot be read: {error.strerror}") from None
    lines, damaged = [], []
    for number, text in enumerate(texts, start=1):
        if not text:
            continue
        try:
            line = json.loads(text)
        except ValueError:  # also raised if the bytes are not UTF-8
            line = None
        if not isinstance(line, dict):
            damaged.append(number)
        elif damaged:
            raise Refused(BAD_DATA, f"{path}: line {damaged[0]} is not a JSON object")
        else:
            lines.append(line)
    if damaged:
        print(f"note: {shown(path)}: skipped line {damaged[0]}, which is damaged, and all after it", file=sys.stderr)
    return lines


def read_run(place):
    path = place / "metrics.jsonl" if place.is_dir() else place
    number = lambda value: isinstance(value, (int, float)) and math.isfinite(value)  # a loss may be null
    curves = {"loss": [], "eval_precision": []}
    for line in read_lines(path):
        for field, curve in curves.items():
            if number(line.get("step")) and number(line.get(field)):
                curve.append((line["step"], line[field]))
    if not any(curves.values()):
        raise Refused(BAD_DATA, f"{path}: contains no loss and no evaluation")
    return Run(path, curves["loss"], curves["eval_precision"])


def name_runs(runs):
    """Names each run by the last parts of its directory's path: as many parts as make the name unique."""
    places = [(run.path.parent if run.path.name == "metrics.jsonl" else run.path).resolve().parts for run in runs]
    for run, own in zip(runs, places):
        counts = range(1, len(own) + 1)
        alone = (n for n in counts if not any(own[-n:] == other[-n:] for other in places if other != own))
        run.name = "/".join(own[-next(alone, len(own)) :])


def smoothed(curve, window):
    """Returns moving means over `window` points. At the beginning, losses fall fast, so the window is smaller there,
    and symmetric. At the end, the window contains the points that remain."""
    sums = [0.0]
    for _, value in curve:
        sums.append(sums[-1] + value)
    half, count = window // 2, len(curve)
    means = []
    for i, (step, _) in enumerate(curve):
        first = i - min(half, i)
        last = min(i + (i - first), count - 1)
        means.append((step, (sums[last + 1] - sums[first]) / (last + 1 - first)))
    return means


def thinned(curve):
    """Shortens a long curve: keeps the lowest and the highest point of each part, so that the outline stays the
    same."""
    size = -(-2 * len(curve) // MAX_POINTS)
    if size <= 2:
        return curve
    parts = [curve[i : i + size] for i in range(0, len(curve), size)]
    ends = [{min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])} for part in parts]
    return [point for pair in ends for point in sorted(pair)]


def nice_step(span, count):
    """Returns the distance between ticks: 1, 2 or 5 times a power of ten, so that `span` has at most `count` parts."""
    power = 10.0 ** math.floor(math.log10(span / count))
    return next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= count)


@dataclasses.dataclass
class Panel:
    title: str
    range: tuple  # (lowest value, highest value, whether the axis is logarithmic)
    curves: dict  # {number of the run: smoothed curve}
    raw: dict  # {number of the run: raw curve}, drawn faintly below the smoothed curve
    dotted: bool = False


class Axis:
    """Maps values to pixels: `low` to `start`, `high` to `end`."""

    def __init__(self, low, high, start, end, logarithmic=False):
        self.of = math.log10 if logarithmic else float
        self.low, self.high, self.start, self.end, self.logarithmic = low, high, start, end, logarithmic

    def at(self, value):
        low, high = self.of(self.low), self.of(self.high)
        value = self.of(max(value, self.low * 1e-6)) if self.logarithmic else value
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, count):
        if not self.logarithmic:
            step = nice_step(self.high - self.low, count)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [i * step for i in range(first, last + 1)]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
            found = [f * 10.0**power for power in powers for f in factors if self.low <= f * 10.0**power <= self.high]
            if len(found) >= 4:
                break
        return found


def tick_texts(values, logarithmic):
    largest = max(map(abs, values), default=0.0)
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if largest >= size and not logarithmic:
            return [f"{value / size:.6g}{unit}" if value else "0" for value in values]
    if logarithmic or len(values) < 2:
        return [f"{value:.6g}" for value in values]
    decimals = max(0, -math.floor(math.log10(values[1] - values[0]) + 1e-9))  # equal for all ticks
    return [f"{value:.{decimals}f}" for value in values]


def path_data(curve, x, y):
    points = " L".join(f"{x.at(step):.1f} {y.at(value):.1f}" for step, value in curve)
    return f"M{points}" if len(curve) > 1 else f"M{points} h0.1"  # draws a round dot


def text(x, y, content, anchor="start", **attributes):
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(shown(content))}</text>'


def frame(title, x, y, top):
    """Yields the grid, the ticks and the title of a panel."""
    bottom = top + PANEL_HEIGHT
    ticks = x.ticks(9)
    for value, name in zip(ticks, tick_texts(ticks, False)):
        yield f'<path class="grid" d="M{x.at(value):.1f} {top} V{bottom}"/>'
        yield text(x.at(value), bottom + 17, name, "middle")
    ticks = y.ticks(7)
    for value, name in zip(ticks, tick_texts(ticks, y.logarithmic)):
        yield f'<path class="grid" d="M{LEFT} {y.at(value):.1f} H{WIDTH - RIGHT}"/>'
        yield text(LEFT - 8, y.at(value) + 4, name, "end")
    yield f'<rect class="frame" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{PANEL_HEIGHT}"/>'
    middle = top + PANEL_HEIGHT / 2
    yield text(18, middle, title, "middle", transform=f"rotate(-90 18 {middle:.1f})")


def loss_range(curves):
    """Returns the range of an axis: (lowest, highest, whether logarithmic). The range contains the means, and the
    values up to their 99th percentile."""
    lows, highs = [], []
    for raw, means in curves:
        values = sorted(value for _, value in raw)
        lows += [values[0], min(value for _, value in means)]
        highs += [values[int(0.99 * (len(values) - 1))], max(value for _, value in means)]
    low, high = min(lows), max(highs)
    if low > 0 and high / low > 8:
        return low / 1.1, high * 1.1, True
    return padded(low, high) + (False,)


def padded(low, high):
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def colour(number):
    return COLOURS[number % len(COLOURS)]


def style(number):
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return f'stroke="{colour(number)}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def outcome(run):
    """Returns the results of a run as the legend shows them."""
    parts = []
    if run.evaluations:
        step, best = max(run.evaluations, key=lambda point: (point[1], -point[0]))
        parts.append(f"best accuracy {best:.4f} at step {step:,}")
    if run.losses:
        last = [value for _, value in run.losses[-max(1, len(run.losses) // 20) :]]
        parts.append(f"loss {sum(last) / len(last):.4g} at the end")
    return ", ".join(parts)


def legend(runs, top):
    for i, run in enumerate(runs):
        y = top + i * LEGEND_ROW + 10
        yield f'<path {style(i)} stroke-width="2.5" d="M{LEFT} {y - 4} h26"/>'
        name = f'<tspan font-weight="bold">{escape(shown(run.name))}</tspan>'
        yield f'<text x="{LEFT + 34}" y="{y}">{name}<tspan fill="#666" dx="10">{escape(outcome(run))}</tspan></text>'


def loss_panel(runs, window):
    curves = {}
    for i, run in enumerate(runs):
        if run.losses:
            curves[i] = (run.losses, smoothed(run.losses, window or max(1, len(run.losses) // 40)))
    raw = {i: thinned(values) for i, (values, _) in curves.items()}
    return Panel("loss", loss_range(curves.values()), {i: thinned(means) for i, (_, means) in curves.items()}, raw)


def accuracy_panel(runs, lowest):
    values = [value for run in runs for _, value in run.evaluations]
    low, high = padded(min(values) if lowest is None else lowest, max(values))
    low, high = max(low, 0.0) if lowest is None else lowest, max(min(high, 1.0), low + 0.01)
    curves = {i: thinned(run.evaluations) for i, run in enumerate(runs) if run.evaluations}
    dotted = all(len(curve) <= MAX_DOTS for curve in curves.values())
    return Panel("accuracy", (low, high, False), curves, {}, dotted)


def drawing(runs, options):
    panels = []
    if any(run.losses for run in runs):
        panels.append(loss_panel(runs, options.window))
    if any(run.evaluations for run in runs):
        panels.append(accuracy_panel(runs, options.lowest_accuracy))
    first_panel = TOP + LEGEND_ROW * len(runs) + 14
    height = first_panel + len(panels) * (PANEL_HEIGHT + GAP) - GAP + BOTTOM
    steps = [step for run in runs for step, _ in run.losses + run.evaluations]
    low, high = min(steps), max(steps)
    x = Axis(low, max(high, low + 10), LEFT, WIDTH - RIGHT)

    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    yield "<style>text{font:13px sans-serif;fill:#222}.grid{stroke:#e4e4e4}.frame{stroke:#999;fill:none}"
    yield "path{fill:none;stroke-linejoin:round;stroke-linecap:round}.curve path{stroke-width:2}"
    yield f".raw{{stroke-opacity:{0.3 if len(runs) < 4 else 0.12}}}"
    yield ".curve .dots{stroke-width:6;stroke-dasharray:none}</style>"
    yield '<rect width="100%" height="100%" fill="#fff"/>'
    yield from legend(runs, TOP)
    for number, panel in enumerate(panels):
        top = first_panel + number * (PANEL_HEIGHT + GAP)
        low, high, logarithmic = panel.range
        y = Axis(low, high, top + PANEL_HEIGHT, top, logarithmic)
        place = f'x="{LEFT}" y="{top}" width="{x.end - LEFT}" height="{PANEL_HEIGHT}"'
        yield f'<clipPath id="panel{number}"><rect {place}/></clipPath>'
        yield from frame(panel.title, x, y, top)
        clip = f'clip-path="url(#panel{number})"'
        for i, curve in panel.raw.items():  # drawn first, so that no raw curve covers a mean
            yield f'<path class="raw" {clip} stroke="{colour(i)}" d="{path_data(curve, x, y)}"/>'
        for i, curve in panel.curves.items():
            yield f'<g class="curve" {style(i)}><title>{escape(shown(runs[i].name))}</title>'
            yield f'<path {clip} d="{path_data(curve, x, y)}"/>'
            if panel.dotted or len(curve) == 1:
                dots = [path_data([point], x, y) for point in curve if low <= point[1] <= high]
                yield f'<path class="dots" d="{" ".join(dots)}"/>'
            yield "</g>"
    yield text((LEFT + x.end) / 2, height - 8, "step", "middle")
    yield "</svg>\n"


def write(path, content):
    """Writes the file atomically. Writes through a symbolic link; refuses a device node or a FIFO."""
    try:
        target = path.resolve()
    except RuntimeError:  # raised for a cycle of links, only before Python 3.13
        raise Refused(IO_ERROR, f"{path}: is a cycle of symbolic links") from None
    if target.exists() and not target.is_file():
        raise Refused(IO_ERROR, f"{path}: is not a regular file, and is not replaced")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(target)
    except OSError as error:
        if temporary.exists():
            temporary.unlink()
        raise Refused(IO_ERROR, f"{path}: cannot be written: {error.strerror}") from None


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(USAGE, f"{message} (see --help)")


def window(value):
    if int(value) < 1:
        raise ValueError
    return int(value)


def accuracy(value):
    if not 0 <= float(value) < 1:
        raise ValueError
    return float(value)


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("runs", metavar="RUN", type=pathlib.Path, nargs="+", help="a train directory or metrics.jsonl")
    parser.add_argument("-o", "--output", metavar="FILE.svg", type=pathlib.Path, required=True, help="file to write")
    window_help = "window of the moving mean, in logged steps (default: a 40th of the run)"
    parser.add_argument("--window", metavar="N", type=window, help=window_help)
    former = "--lowest-precision"
    parser.add_argument("--lowest-accuracy", former, metavar="A", type=accuracy, help="lowest value on the accuracy axis")
    try:
        options = parser.parse_args()
        runs = [read_run(place) for place in options.runs]
        name_runs(runs)
        write(options.output, "\n".join(drawing(runs, options)))
    except Refused as refused:
        print(f"plot_runs.py: {shown(refused)}", file=sys.stderr)
        sys.exit(refused.code)


if __name__ == "__main__":
    main()
