#!/usr/bin/env python3
"""Writes docs/user-guide/option-reference.md from the output of the programs with --document markdown.

    tests/structure/check_option_reference.py build/bin            prints the page
    tests/structure/check_option_reference.py build/bin --check    fails if these programs give another page

If several programs share a row of a table, the row is printed once, in the first section with such a program.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/user-guide/option-reference.md"
FAMILIES = (
    ("carillon", ("carillon",)),
    ("Training programs", ("mnist_train", "cifar10_train", "image_train")),
    ("Evaluation programs", ("mnist_eval", "cifar10_eval", "image_eval")),
    ("carillon_predict", ("carillon_predict",)),
    ("tfrecord_convert", ("tfrecord_convert",)),
    ("tfrecord_inspect", ("tfrecord_inspect",)),
    ("checkpoint_tool", ("checkpoint_tool",)),
)
CODES = "Exit codes"
INTRODUCTION = """# Option reference

This page lists all options of all programs. It is generated from the programs:

<!-- not run: it writes this page -->
```bash
tests/structure/check_option_reference.py build/bin >docs/user-guide/option-reference.md
```

- `N` stands for an integer and `X` for a number. An option without `N`, `X` or another placeholder is a flag.
- Program names in parentheses say which programs have an option. All programs of the section have the other options.

These rules hold for the training programs, the evaluation programs and `carillon_predict`:

- `--shuffle` and `--shuffle=true` set a flag, `--shuffle=false` clears it.
- The command line overrides `--config FILE`, which overrides the environment (`CARILLON_MAX_STEPS` for `--max-steps`).

`PROGRAM --document markdown` prints the options of one program, also of [your own programs](your-own-model/README.md).
[Training options](training-options.md) explains how to choose the options of a training.
"""


@dataclass
class Document:
    """What a program prints with --document markdown."""

    purpose: str
    texts: list  # the usage, then the description if the program has one
    tables: dict = field(default_factory=dict)  # {heading: list of rows}; a row is a list of cells


def read_document(text):
    """Parses what a program prints with --document markdown."""
    texts = [found[1] for found in re.finditer(r"^```text\n(.*?)^```$", text, re.M | re.S)]
    document = Document(text.split("\n")[2], texts)
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, *lines = part.splitlines()
        rows = [re.split(r"(?<!\\) \| ", line[2:-2]) for line in lines if line.startswith("| ")]
        document.tables[heading] = [[cell.strip() for cell in row] for row in rows[1:]]
    return document


def merged(documents):
    """Returns the rows of all programs of a section, in a common order: {heading: {(option, description): {program:
    default value}}}."""
    headings = {}
    for program, document in documents.items():
        for heading, rows in document.tables.items():
            if heading == CODES:
                continue
            found, before = headings.setdefault(heading, {}), None
            for option, default, text in rows:
                key = (option, text)
                if key not in found:  # insert the row after the previous row of this program
                    names = list(found)
                    names.insert(names.index(before) + 1 if before else 0, key)
                    headings[heading] = found = {name: found.get(name, {}) for name in names}
                found[key][program] = default
                before = key
    return headings


def option_row(option, text, defaults, programs):
    values = list(defaults.values())
    default = values[0]
    if len(set(values)) > 1:
        default = ", ".join(f"{program} {value or 'none'}" for program, value in defaults.items())
    owners = "" if len(defaults) == len(programs) else f" ({', '.join(defaults)})"
    return f"| {option}{owners} | {default} | {text} |\n"


def family_section(title, documents, printed):
    """Returns the text of a section. `printed`: the rows of earlier sections, as {(option, text, default)}. Adds the
    rows of this section to `printed`."""
    lines = f"\n## {title}\n\n"
    for program, document in documents.items():
        purpose = document.purpose
        lines += f"- `{program}`: {purpose[0].lower()}{purpose[1:]}\n" if len(documents) > 1 else f"{purpose}\n"
    lines += f"\n```text\n{''.join(document.texts[0] for document in documents.values())}```\n"
    for text in (text for document in documents.values() for text in document.texts[1:]):
        lines += f"\n```text\n{text}```\n"
    known = []
    for heading, rows in merged(documents).items():
        table = ""
        for (option, text), defaults in rows.items():
            marks = {(option, text, default) for default in defaults.values()}
            if marks <= printed and len(defaults) == len(documents):
                known.append(option)
            else:
                table += option_row(option, text, defaults, documents)
            printed |= marks
        if table:
            lines += f"\n### {heading}\n\n| Option | Default | Description |\n|---|---|---|\n{table}"
    if known:
        sentence = f"These options are the same as above: {', '.join(known)}."
        lines += "\n" + textwrap.fill(sentence, 120, break_on_hyphens=False, break_long_words=False) + "\n"
    return lines


def exit_codes(documents):
    """Returns the section of exit codes. Programs with the same codes share one table."""
    groups = {}
    for program, document in documents.items():
        groups.setdefault(str(document.tables[CODES]), []).append(program)
    text = f"\n## {CODES}\n"
    for programs in groups.values():
        text += f"\n{', '.join(f'`{program}`' for program in programs)}:\n\n| Code | Meaning |\n|---|---|\n"
        text += "".join(f"| {code} | {meaning} |\n" for code, meaning in documents[programs[0]].tables[CODES])
    return text


def page(binaries):
    all_documents, printed, text = {}, set(), INTRODUCTION
    for title, programs in FAMILIES:
        documents = {}
        for program in programs:
            command = [binaries / program, "--document", "markdown"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            documents[program] = read_document(done.stdout)
        all_documents |= documents
        text += family_section(title, documents, printed)
    return text + exit_codes(all_documents)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    text = page(given.binaries.resolve())
    if not given.check:
        print(text, end="")
        return 0
    listed = {program for _, programs in FAMILIES for program in programs}
    links = re.search(r"^set\(CARILLON_LINKS ([^)]*)\)", (ROOT / "src/CMakeLists.txt").read_text(), re.M)
    built = {"carillon", *links[1].split()}
    if built != listed:
        print(f"FAMILIES lists other programs than src/CMakeLists.txt: {', '.join(sorted(built ^ listed))}")
        return 1
    if PAGE.read_text() != text:
        print(f"{PAGE.relative_to(ROOT)} is not that of the programs; run: {INTRODUCTION.split('```')[1][5:].strip()}")
        return 1
    print(f"{PAGE.relative_to(ROOT)}: {text.count('| `--')} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
