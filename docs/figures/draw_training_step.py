#!/usr/bin/env python3
"""Draws the two figures of docs/developer-guide/training-step.md as SVG files next to this script.

    docs/figures/draw_training_step.py

gradient_buckets.svg   flat array of the network cifar10 and its buckets (src/graph/parameters.cpp, reducer.cpp)
micro_batch_tree.svg   order in which micro-batch gradients are summed (include/carillon/core/reduction.h)

Requires the Python standard library only.
"""

from html import escape
from pathlib import Path

INK, MUTED, LINE = "#1b1f24", "#57606a", "#8c959f"
RANKS = ["#9ecae9", "#f9c784", "#a8d8a0", "#d9b8e3"]  # fill of ranks 0 to 3
SHARED = "#ffffff"


class Drawing:
    def __init__(self, width, height, title):
        self.items = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" role="img">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def rect(self, x, y, width, height, fill, dashed=False):
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        self.items.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="{fill}" stroke="{INK}"{dash}/>'
        )

    def text(self, x, y, text, size=13, anchor="middle", fill=INK, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.items.append(
            f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{weight}>'
            f"{escape(text)}</text>"
        )

    def line(self, x1, y1, x2, y2, arrow=False, dashed=False, color=INK):
        head = ' marker-end="url(#head)"' if arrow else ""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.items.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" stroke-width="1.3"{dash}{head}/>'
        )

    def circle(self, x, y, radius, fill):
        self.items.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}" stroke="{INK}"/>')

    def write(self, name):
        (Path(__file__).parent / name).write_text("\n".join([*self.items, "</svg>", ""]))


# Layers of cifar10 in forward order: elements of weights and biases.
LAYERS = [
    ("conv1", 4800, 64),
    ("conv2", 102400, 64),
    ("local3", 884736, 384),
    ("local4", 73728, 192),
    ("softmax_linear", 1920, 10),
]
STEP_SUMS = 16


def aligned(count):
    return (count + 15) // 16 * 16  # 64 bytes


def kib(floats):
    return f"{floats * 4 / 1024:,.0f} KiB"


def bucket_groups(sizes, limit):
    """The layers of each bucket, for parameters [weights, biases] that become complete biases first."""
    groups, current, elements = [], [], 0
    for layer, (weights, biases) in sizes:
        current.append(layer)
        elements += weights + biases  # no bucket of these ends between the biases and the weights of a layer
        if elements * 4 >= limit:
            groups.append((current, elements))
            current, elements = [], 0
    if current:
        groups.append((current, elements + STEP_SUMS))
    else:
        groups[-1] = (groups[-1][0], groups[-1][1] + STEP_SUMS)
    return groups


def gradient_buckets():
    drawing = Drawing(960, 392, "Parameter order and gradient buckets of the network cifar10")
    left, width = 170, 770
    step = width / len(LAYERS)
    drawing.text(left - 14, 52, "graph", anchor="end", bold=True)
    drawing.text(left - 14, 68, "forward order", 12, "end", MUTED)
    for i, (name, _, _) in enumerate(LAYERS):
        drawing.rect(left + i * step + 8, 36, step - 28, 40, "#eef1f4")
        drawing.text(left + i * step + 8 + (step - 28) / 2, 61, name)
        if i + 1 < len(LAYERS):
            drawing.line(left + (i + 1) * step - 19, 56, left + (i + 1) * step + 6, 56, arrow=True)

    sizes = [(name, (aligned(weights), aligned(biases))) for name, weights, biases in reversed(LAYERS)]
    sums_width = 84
    widths = dict(zip([name for name, _ in sizes], [128, 110, 200, 150, 98]))
    drawing.text(left - 14, 156, "flat array", anchor="end", bold=True)
    drawing.text(left - 14, 172, "backward order", 12, "end", MUTED)
    edges, x = {}, left
    for name, (weights, biases) in sizes:
        drawing.rect(x, 136, widths[name], 48, "#eef1f4")
        drawing.text(x + widths[name] / 2, 157, name)
        drawing.text(x + widths[name] / 2, 174, kib(weights + biases), 12, fill=MUTED)
        edges[name] = (x, x + widths[name])
        x += widths[name]
    drawing.rect(x, 136, sums_width, 48, RANKS[1])
    drawing.text(x + sums_width / 2, 157, "step sums")
    drawing.text(x + sums_width / 2, 174, "64 B", 12, fill=MUTED)
    end = x + sums_width
    drawing.line(left, 112, end - sums_width, 112, arrow=True)
    middle = (left + end - sums_width) / 2
    drawing.text(middle, 105, "the backward pass completes gradients in this order", 12, fill=MUTED)

    for top, label, limit in ((208, "CPU: 4 MiB", 1 << 22), (286, "GPU: 1 MiB", 1 << 20)):
        drawing.text(left - 14, top + 18, "buckets", anchor="end", bold=True)
        drawing.text(left - 14, top + 34, label, 12, "end", MUTED)
        groups = bucket_groups(sizes, limit)
        for number, (names, elements) in enumerate(groups):
            begin = edges[names[0]][0]
            stop = end if number + 1 == len(groups) else edges[names[-1]][1]
            drawing.rect(begin + 3, top, stop - begin - 6, 40, RANKS[0] if number % 2 == 0 else RANKS[2])
            drawing.text((begin + stop) / 2, top + 25, f"bucket {number}: {kib(elements)}")
            drawing.text((begin + stop) / 2, top + 57, f"all-reduce starts after {names[-1]}", 12, fill=MUTED)
    note = "Widths are not to scale. A bucket ends at the first variable at which it reaches its size."
    drawing.text(left, 372, note, 12, "start", MUTED)
    drawing.write("gradient_buckets.svg")


def tree(drawing, left, ranks):
    leaves, gap, bottom, rise = 8, 36, 250, 58
    width = (leaves - 1) * gap
    of_rank = leaves // ranks
    drawing.text(left + width / 2, 26, f"{ranks} rank" + ("s" if ranks > 1 else ""), 15, bold=True)
    places = [left + i * gap for i in range(leaves)]
    span, y = 1, bottom
    rows = [(places, y, 1)]
    while len(places) > 1:
        parents = [(places[i] + places[i + 1]) / 2 for i in range(0, len(places), 2)]
        span *= 2
        above = y - rise
        for i, x in enumerate(parents):
            drawing.line(places[2 * i], y - 13, x, above + 12)
            drawing.line(places[2 * i + 1], y - 13, x, above + 12)
        places, y = parents, above
        rows.append((places, y, span))
    for places, y, span in rows:
        for i, x in enumerate(places):
            own = span <= of_rank
            fill = RANKS[i * span // of_rank] if own else SHARED
            if span == 1:
                drawing.rect(x - 13, y - 13, 26, 26, fill)
                drawing.text(x, y + 5, str(i), 13)
            else:
                drawing.circle(x, y, 12, fill)
                drawing.text(x, y + 5, "+", 15)
    for rank in range(ranks):
        x1 = left + rank * of_rank * gap - 13
        x2 = left + ((rank + 1) * of_rank - 1) * gap + 13
        drawing.line(x1, bottom + 26, x2, bottom + 26)
        drawing.text((x1 + x2) / 2, bottom + 44, f"rank {rank}", 12)


def micro_batch_tree():
    drawing = Drawing(960, 372, "The binary tree that sums the gradients of 8 micro-batches on 1, 2 and 4 ranks")
    for left, ranks in ((36, 1), (354, 2), (672, 4)):
        tree(drawing, left, ranks)
    drawing.rect(60, 324, 22, 22, "#eef1f4")
    drawing.text(90, 340, "gradients of a micro-batch", 13, "start")
    drawing.circle(302, 335, 11, RANKS[0])
    drawing.text(322, 340, "sum that a rank computes (SumTree)", 13, "start")
    drawing.circle(606, 335, 11, SHARED)
    drawing.text(626, 340, "sum over ranks (communicator)", 13, "start")
    drawing.write("micro_batch_tree.svg")


if __name__ == "__main__":
    gradient_buckets()
    micro_batch_tree()
