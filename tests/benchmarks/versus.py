"""Shared by the comparisons with PyTorch: runs of Carillon's program, runs of PyTorch (one or several ranks), and the
report."""

import argparse
import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import measure

HERE = pathlib.Path(__file__).resolve().parent


class Versus:
    """A comparison. program: name of Carillon's program; worker: script of PyTorch's training; batch: samples per rank;
    options: parsed command line; work: a scratch directory."""

    def __init__(self, program, worker, batch, options, work):
        self.program, self.worker, self.batch, self.options, self.work = program, worker, batch, options, work
        self.mine, self.former, self.others = {}, {}, {}
        self.peers = ["torch"]  # Python packages, whose versions the report names

    def convert(self, data_set):
        """Writes the records that Carillon's program reads."""
        records = self.work / "records"
        command = [self.options.bin / "tfrecord_convert", data_set, "--input", self.options.data, "--output", records]
        measure.run(command)
        return records / "train-*.tfrecord"

    def add_ours(self, name, pattern, ranks, *options, after=None):
        """Adds runs of Carillon. after: the first measured step; default: a tenth of the number of steps."""

        def run(folder=self.options.bin):
            with tempfile.TemporaryDirectory(dir=self.work) as train_dir:
                launcher = measure.mpirun(ranks) if ranks > 1 else []
                batch = () if "--global-batch" in options else ("--batch-size", self.batch)
                command = [
                    *launcher, folder / self.program, "--data", pattern, "--train-dir", train_dir,
                    "--device", "cpu", *batch, "--max-steps", self.options.steps, *options,
                ]  # fmt: skip
                _, peak = measure.run(command)
                return measure.training_rate(train_dir, self.batch * ranks, after or self.options.steps // 10), peak

        self.mine[name] = run
        if former := self.options.former_bin:
            self.former[f"{name}, former build"] = lambda: run(former)

    def worker_command(self, *options, worker=None):
        fixed = ["--data", self.options.data, "--batch", self.batch, "--seconds", self.options.seconds]
        return [sys.executable, HERE / (worker or self.worker), *fixed, *options]

    def add_theirs(self, name, threads, *options, environment=(), worker=None):
        """Adds runs of the peer's script. worker: the script of a peer other than PyTorch."""

        def run():
            command = self.worker_command("--threads", threads, *options, worker=worker)
            output, peak = measure.run(command, environment)
            return json.loads(output)["examples_per_second"], peak

        self.others[name] = run

    def add_theirs_distributed(self, name, ranks, *options, environment=()):
        """Adds runs of PyTorch's DistributedDataParallel with gloo, with one thread per rank."""

        def run():
            with tempfile.TemporaryDirectory(dir=self.work) as folder:
                meet = pathlib.Path(folder) / "meet"
                command = self.worker_command("--threads", 1, "--ranks", ranks, "--rendezvous", meet, *options)
                environ = measure.environment(environment)
                others = [
                    subprocess.Popen([*map(str, command), "--rank", str(rank)], stdout=subprocess.DEVNULL, env=environ)
                    for rank in range(1, ranks)
                ]
                output, peak = measure.run([*command, "--rank", 0], environment)
                for process in others:
                    process.wait(timeout=60)
                return json.loads(output)["examples_per_second"], peak

        self.others[name] = run

    def report(self):
        """Yields Markdown lines: the conditions, the table, and the ratio of the best configurations."""
        versions = {name: importlib.metadata.version(name) for name in self.peers} | {"Python": sys.version.split()[0]}
        lines = [*measure.conditions(self.options.rounds, **versions), ""]
        found = measure.interleaved(self.options.rounds, self.mine | self.former | self.others)
        if self.mine and self.others:
            return lines + list(measure.comparison(found, list(self.mine), list(self.others), "examples"))
        return lines + list(measure.table(found, "examples"))


def arguments(description, data_help, steps, seconds):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bin", type=pathlib.Path, help="directory of our programs; without it only PyTorch is measured")
    parser.add_argument("--data", type=pathlib.Path, required=True, help=data_help)
    parser.add_argument("--former-bin", type=pathlib.Path, help="programs of another build to compare")
    parser.add_argument(
        "--only", type=re.compile, default=re.compile(""), metavar="REGEX",
        help="run only the configurations with a match in their names, for example Carillon",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=steps, help="steps per run of our program")
    parser.add_argument("--seconds", type=float, default=seconds, help="seconds of measurement per run of PyTorch")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    return parser


def main(parser, program, worker, batch, configure):
    """Runs a comparison. configure: a function that adds the configurations to a Versus."""
    options = parser.parse_args()
    if not options.data.exists():
        parser.error(f"--data: {options.data} does not exist")
    with tempfile.TemporaryDirectory() as work:
        versus = Versus(program, worker, batch, options, pathlib.Path(work))
        configure(versus)
        for runs in (versus.mine, versus.former, versus.others):
            for name in [name for name in runs if not options.only.search(name)]:
                del runs[name]
        if versus.mine or versus.others:
            print("\n".join(versus.report()))
