"""The documents: their commands run, their links and anchors exist, and README.md and docs/benchmarks.md are short.

  tests/acceptance/check_documents.py --bin build/bin [--page 'docs/user-guide/*'] [--documents ROOT]

Runs every fenced block with the language bash of README.md and the two guides, in order. Each page has its own folder,
which looks like a clone after jobs/quickstart.sh. Small files in the folder replace downloads: mnist/,
cifar-10-binary.tar.gz, pictures/ and holiday/. Trainings run for few steps (short_training.py). A block after a line
`<!-- not run: REASON -->` is not run.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass

import numpy as np

import cifar
import programs
import short_training
from idx import read_idx
from markdown_page import anchors_of, blocks_of, links_of
from png import png
from programs import Result
from tfrecords import parse_example, read_records

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDES = ("docs/user-guide", "docs/developer-guide")
PARTS = ("README.md", "docs", "include", "jobs", "kernels", "src", "tests")  # where documents may be
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".sbatch", ".txt", ".cmake", ".in", ".cfg"}
LONGEST = {"README.md": 130, "docs/benchmarks.md": 200}  # largest allowed number of lines
LANGUAGES = {"bash", "text", "python", "cpp", "c", "cmake", "ini", "json", "mermaid", "xml", "csv", "diff"}
NO_FIRST_COMMAND = ("README.md", "option-reference.md", "first-training.md")  # pages that may begin without a command
SECONDS_PER_BLOCK = 120
CLASSES = ("airplane", "ship", "truck")

# Code that runs before each block of a page. It restores the current directory and the exported variables from the end
# of the previous block. A trap writes the line number and the text of the current command to a file. After the block,
# `_keep` saves the directory and the variables.
PREAMBLE = r"""
unset BASH_ENV
if [[ -e $BLOCK_STATE ]]; then source "$BLOCK_STATE"; fi
_note() { printf '%s\n' "$1" "$2" >"$BLOCK_COMMAND"; }
_keep() { trap - DEBUG; { export -p; printf 'cd %q\n' "$PWD"; } >"$BLOCK_STATE"; }
trap '_note "$LINENO" "$BASH_COMMAND"' DEBUG
set -T
"""


def declare(parser):
    parser.add_argument("--documents", type=pathlib.Path, default=ROOT, help="their root (default: %(default)s)")
    parser.add_argument("--page", default="*", help="pattern of the pages to check, e.g. 'docs/user-guide/*'")


def check(context):
    """the documents"""
    root = context.options.documents.resolve()
    yield _lines(root)
    yield _links(root)
    yield _mentions(root)
    pages = [root / "README.md", *sorted(path for guide in GUIDES for path in (root / guide).rglob("*.md"))]
    pages = [page for page in pages if page.relative_to(root).match(context.options.page)]
    template = context.directory("inputs")
    _write_inputs(context, template)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        # Start the page with the most blocks first, so that the shorter pages run on the other cores meanwhile.
        by_length = sorted(pages, key=lambda page: -page.read_text().count("```bash"))
        results = {page: pool.submit(_Page(context, root, page, template).result) for page in by_length}
        for page in pages:
            yield results[page].result()


def _lines(root):
    counts = {name: len((root / name).read_text().splitlines()) for name in LONGEST if (root / name).exists()}
    long = [f"{name}: {count} lines, more than {LONGEST[name]}" for name, count in counts.items()
            if count > LONGEST[name]]  # fmt: skip
    detail = ", ".join(f"{name} {count}" for name, count in counts.items())
    return Result("documents: README.md and docs/benchmarks.md are short", not long, "; ".join(long) or detail)


def _links(root):
    paths = [root / part for part in PARTS]
    pages = sorted(page for path in paths for page in ([path] if path.is_file() else path.rglob("*.md")))
    dead, count = [], 0
    for page in pages:
        for link in links_of(page.read_text()):
            target = (page.parent / link.path).resolve() if link.path else page
            count += 1
            if wrong := _wrong_target(root, target, link.anchor):
                shown = link.path + (f"#{link.anchor}" if link.anchor else "")
                dead.append(f"{page.relative_to(root)}:{link.line}: {shown}: {wrong}")
    detail = f"{count} in {len(pages)} documents"
    return Result("documents: every link has a target", not dead, "".join(f"\n  {line}" for line in dead) or detail)


def _mentions(root):
    """Comments and scripts name documents by their paths in the repository. Checks that all these documents exist."""
    paths = [root / part for part in PARTS]
    wrong, count = [], 0
    for path in sorted(file for top in paths for file in ([top] if top.is_file() else top.rglob("*"))):
        if path.suffix not in SOURCES and path.name != "README.md":
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for name in re.findall(r"(?<![\w./-])docs/[\w./-]+\.md\b", line):
                count += 1
                if not (root / name).exists():
                    wrong.append(f"{path.relative_to(root)}:{number}: {name}")
    lines = "".join(f"\n  {line}" for line in wrong)
    return Result("documents: every document that a source names exists", not wrong, lines or f"{count} names")


def _wrong_target(root, target, anchor):
    if not target.is_relative_to(root):
        return "outside of the repository"
    if not target.exists():
        return "no such file"
    if anchor and target.suffix == ".md" and anchor not in anchors_of(target.read_text()):
        return "no such heading"
    return ""


def _write_inputs(context, folder):
    """Writes the files that a page needs and that the repository does not contain."""
    _write_mnist(context, folder / "mnist")
    _write_cifar10(folder)
    _write_pictures(context, folder)


def _write_mnist(context, folder):
    folder.mkdir(parents=True)
    for split, count in (("train", 600), ("t10k", 200)):
        images, labels = read_idx(context.images, split)
        head = struct.pack(">4I", 0x803, count, 28, 28)
        (folder / f"{split}-images-idx3-ubyte").write_bytes(head + images[:count].tobytes())
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels[:count].tobytes())


def _write_cifar10(folder):
    source = folder / "cifar-10-batches-bin"
    source.mkdir()
    random = np.random.default_rng(1)
    for name in (*cifar.TRAIN, cifar.TEST):
        labels = np.arange(60, dtype=np.uint8).reshape(-1, 1) % 10
        pixels = random.integers(0, 128, (60, 3072), np.uint8) + 12 * labels
        (source / name).write_bytes(np.hstack([labels, pixels]).tobytes())
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    shutil.rmtree(source)


def _write_pictures(context, folder):
    """Writes JPEG files, which tfrecord_convert makes from PNG files, and some PNG files."""
    random = np.random.default_rng(2)
    source, records = context.directory("png"), context.directory("records")
    for number, name in enumerate(CLASSES):
        (source / name).mkdir(parents=True)
        for i in range(20):
            pixels = random.integers(0, 100, (72, 90, 3), np.uint8)
            pixels[:, :, number] += 100
            (source / name / f"{i:03}.png").write_bytes(png(pixels))
    context.run("tfrecord_convert", "images", "--input", source, "--output", records, "--resize-shorter", 64)
    keys = ("image/encoded", "image/class/text", "image/filename")
    for number, record in enumerate(read_records(next(records.glob("train-*")))):
        found = parse_example(record, keys)
        path = folder / "pictures" / found["image/class/text"].decode() / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found["image/encoded"])
    for name in CLASSES:
        shutil.copy(source / name / "000.png", folder / "pictures" / name / "000.png")
    (folder / "holiday").mkdir()
    for name, picture in zip(("harbour", "road", "sky"), sorted((folder / "pictures").glob("*/*.jpg"))):
        shutil.copy(picture, folder / "holiday" / f"{name}.jpg")


@dataclass
class _Page:
    """A page. Its commands run in a folder for this page."""

    context: programs.Context
    root: pathlib.Path
    page: pathlib.Path
    template: pathlib.Path

    def result(self):
        name = self.page.relative_to(self.root)
        begun = time.monotonic()
        try:
            blocks = blocks_of(self.page.read_text())
            commands = [block for block in blocks if block.language == "bash"]
            wrong = self._wrong_form(blocks, commands) or self._run(commands)
            skipped = sum(bool(block.not_run) for block in commands)
            detail = f"{len(commands) - skipped} blocks run, {skipped} not run, {time.monotonic() - begun:.1f} s"
        except (OSError, ValueError) as error:
            wrong = f"{type(error).__name__}: {error}"
        finally:
            self._end_processes()
        return Result(f"documents: {name}", not wrong, wrong or detail)

    def _wrong_form(self, blocks, commands):
        for block in blocks:
            if block.language not in LANGUAGES:
                known = " ".join(sorted(LANGUAGES))
                return f"line {block.line - 1}: a fenced block of the language '{block.language}'; known: {known}"
        first = commands[0] if commands else None
        if self._is_guide_page() and (first is None or first.not_run):
            return "a page of the user guide begins with a command that runs"
        return ""

    def _is_guide_page(self):
        guide = self.root / GUIDES[0]
        listed = self.page.parent == guide and self.page.name in NO_FIRST_COMMAND
        return self.page.is_relative_to(guide) and not listed

    def _run(self, commands):
        runnable = [block for block in commands if not block.not_run]
        if not runnable:
            return ""
        folder = self._make_folder()
        environment = self._environment(folder, self._scales(runnable))
        for block in runnable:
            if wrong := self._run_block(block, folder, environment):
                return wrong
        return ""

    def _make_folder(self):
        """Makes a folder that looks like a clone after a build, but has no sources."""
        folder = self._folder
        shutil.copytree(self.template, folder)
        for name in ("jobs", "docs"):  # copied, because commands may write there
            shutil.copytree(self.root / name, folder / name)
        (folder / "build/bin").mkdir(parents=True)
        (folder / "home/bin").mkdir(parents=True)
        (folder / "home/bin/python3").symlink_to(sys.executable)
        for path in self.context.binaries.parent.iterdir():
            if path.name != "bin":
                (folder / "build" / path.name).symlink_to(path)
        for program in self.context.binaries.iterdir():
            start = folder / "build/bin" / program.name
            if program.name.endswith("_train") or program.name == "carillon":
                words = [sys.executable, short_training.__file__, program]
                start.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
                start.chmod(0o755)
            else:
                start.symlink_to(program)
        return folder

    def _environment(self, folder, scales):
        """Returns the environment of the commands. Open MPI has the settings of jobs/mpi_env.sh, with one exception:
        there may be more ranks than cores, because pages share the cores."""
        self.scales = scales
        policies = {
            "OMPI_MCA_odls_base_sigkill_timeout": "4",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "PRTE_MCA_hwloc_default_binding_policy": "none",
        }
        home = folder / "home"
        return self.context.environment() | policies | {
            "HOME": str(home),
            "PATH": f"{home}/bin:{os.environ['PATH']}",
            "OMP_WAIT_POLICY": "passive",
            "SHORT_TRAININGS": json.dumps(scales),
            "BASH_ENV": str(home / "preamble"),
            "BLOCK_STATE": str(home / "state"),
            "BLOCK_COMMAND": str(home / "command"),
        }  # fmt: skip

    def _scales(self, blocks):
        """Returns {train directory: [new, old]} (short_training.py). If several runs use the same train directory, the
        numbers belong to the run with the most steps."""
        scales = {}
        for line in "".join(block.text for block in blocks).replace("\\\n", " ").splitlines():
            try:
                words = shlex.split(line, comments=True)
            except ValueError:  # the line is part of a string of several lines
                continue
            program = next((word for word in words if word.endswith(("_train", ".sh", ".sbatch"))), "")
            options = short_training.options_of(program, words, {}) if program else {}
            if "config" in options:
                options = short_training.read_config(self.root / options["config"]) | options
            directory = options.get("train-dir", "").rstrip("/")
            if not directory:
                continue
            scale = short_training.cap(options)
            if scale[1] > scales.get(directory, (0, 0))[1]:
                scales[directory] = scale
        return scales

    def _shortened(self, text):
        """Returns the commands with two changes: they use the checkpoints that the shortened runs write, and local
        files in place of downloads."""

        def renamed(found):
            scale = self.scales.get(found[1])
            return f"{found[1]}/model.ckpt-{short_training.shortened(int(found[2]), scale)}" if scale else found[0]

        for name, source in (("mnist", "mnist"), ("cifar10", "cifar-10-binary.tar.gz")):
            text = text.replace(f"tfrecord_convert {name} --download", f"tfrecord_convert {name} --input {source}")
        return re.sub(r"([\w./-]+)/model\.ckpt-(\d+)", renamed, text)

    def _run_block(self, block, folder, environment):
        home = folder / "home"
        (home / "preamble").write_text(PREAMBLE)
        (home / "command").write_text("1\n\n")
        script, log = home / f"block-{block.line}", home / f"block-{block.line}.log"
        script.write_text(self._shortened(block.text) + "_keep\n")
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-e", "-o", "pipefail", script],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(SECONDS_PER_BLOCK)
            except subprocess.TimeoutExpired:
                code = None
                self._end_processes()
                process.wait()
        if code == 0:
            return ""
        line, command = (home / "command").read_text().split("\n", 1)
        said = "".join(f"\n    {text}" for text in programs.own_lines(log.read_text(errors="replace"))[-8:])
        how = f"still running after {SECONDS_PER_BLOCK} s" if code is None else f"exit code {code}"
        return f"line {block.line + int(line) - 1}: {how}\n  {command.strip()}{said}"

    @property
    def _folder(self):
        return self.context.work / "pages" / re.sub(r"\W+", "-", str(self.page.relative_to(self.root)))

    def _end_processes(self):
        """Ends all processes whose current folder is in the page's folder."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                place = (entry / "cwd").readlink()
            except OSError:  # the process has ended, or belongs to another user
                continue
            if place.is_relative_to(self._folder):
                programs.signal_process(int(entry.name), signal.SIGKILL)


if __name__ == "__main__":
    programs.main(check, declare=declare)
