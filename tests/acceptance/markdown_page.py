"""Reads what the checks of documents need from a Markdown file: fenced blocks, headings and links."""

import re
import textwrap
from dataclasses import dataclass
from urllib.parse import unquote

_FENCE = re.compile(r"^ *(```+|~~~+) *(\S*)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*$")
_NOT_RUN = re.compile(r"^\s*<!-- not run: (\S.*?) *-->\s*$")
_TARGETS = (
    re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)"),  # targets of [text](target) and ![text](target)
    re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)"),  # targets of [label]: target
    re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=[\"']([^\"']+)"),
)


@dataclass
class Block:
    """A fenced block."""

    line: int  # number of the first line inside the fence, from 1
    language: str
    text: str
    not_run: str = ""  # REASON in `<!-- not run: REASON -->` on the line before the block


@dataclass
class Link:
    line: int
    path: str  # empty: this page
    anchor: str


def _split(text):
    """Returns (blocks, prose). Prose is a list of (line number, line) outside of fenced blocks."""
    blocks, prose, fence, reason = [], [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            if line.strip() == fence:
                blocks[-1].text = textwrap.dedent(blocks[-1].text)
                fence = None
            else:
                blocks[-1].text += line + "\n"
            continue
        if found := _FENCE.match(line):
            fence = found[1]
            blocks.append(Block(number + 1, found[2], "", reason))
            reason = ""
            continue
        prose.append((number, line))
        if line.strip():
            found = _NOT_RUN.match(line)
            reason = found[1] if found else ""
    if fence:
        raise ValueError(f"line {blocks[-1].line}: the fenced block has no end")
    return blocks, prose


def blocks_of(text):
    return _split(text)[0]


def anchors_of(text):
    """Returns the anchors of the headings, as GitHub makes them, and the anchors of elements <a id=...>."""
    anchors = set(re.findall(r"<a (?:id|name)=[\"']([^\"']+)", text))
    for _, line in _split(text)[1]:
        if not (found := _HEADING.match(line)):
            continue
        heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", found[1])
        name = anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = 0
        while anchor in anchors:
            count += 1
            anchor = f"{name}-{count}"
        anchors.add(anchor)
    return anchors


def links_of(text):
    """Returns all links and images whose target is relative."""
    links = []
    for number, line in _split(text)[1]:
        plain = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
        for pattern in _TARGETS:
            for target in pattern.findall(plain):
                if re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                path, _, anchor = target.partition("#")
                links.append(Link(number, unquote(path), unquote(anchor)))
    return links
