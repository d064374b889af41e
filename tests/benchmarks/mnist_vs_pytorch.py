"""Training speed on MNIST, batch 100 a rank, whole training loop: mnist_train against PyTorch on the same CPU.

  python tests/benchmarks/mnist_vs_pytorch.py --bin build/bin --data DIRECTORY_OF_IDX_FILES

Both sides do the same work (torch_worker.py says what). Every configuration runs once a round in a process of its own;
the figure is the median over rounds; the ratio is best against best. Prints Markdown. Needs an idle machine and a
Python with torch.
"""

import argparse
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile

import measure

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 100


def ours(binaries, records, work, ranks, options, steps):
    """Measures mnist_train; with its defaults for logs it writes more than PyTorch does, so they can be switched off."""
    with tempfile.TemporaryDirectory(dir=work) as train_dir:
        launcher = measure.mpirun(ranks) if ranks > 1 else []
        command = [
            *launcher, binaries / "mnist_train", "--data", records / "train-*.tfrecord", "--train-dir", train_dir,
            "--device", "cpu", "--batch-size", BATCH, "--pixel-scale", 1 / 255, "--learning-rate", 0.1,
            "--max-steps", steps, *options,
        ]  # fmt: skip
        _, peak = measure.run(command)
        return measure.training_rate(train_dir, BATCH * ranks, steps // 10), peak


def theirs(data, seconds, threads, *options):
    command = [sys.executable, HERE / "torch_worker.py", "--data", data, "--batch", BATCH]
    output, peak = measure.run([*command, "--threads", threads, "--seconds", seconds, *options])
    return json.loads(output)["examples_per_second"], peak


def theirs_distributed(data, seconds, ranks, work, *options):
    with tempfile.TemporaryDirectory(dir=work) as folder:
        command = [
            sys.executable, HERE / "torch_worker.py", "--data", data, "--batch", BATCH, "--threads", 1,
            "--seconds", seconds, "--ranks", ranks, "--rendezvous", pathlib.Path(folder) / "meet", *options,
        ]  # fmt: skip
        others = [
            subprocess.Popen([*map(str, command), "--rank", str(rank)], stdout=subprocess.DEVNULL)
            for rank in range(1, ranks)
        ]
        output, peak = measure.run([*command, "--rank", 0])
        for process in others:
            process.wait(timeout=60)
        return json.loads(output)["examples_per_second"], peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, help="our programs; without it PyTorch alone is measured")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="directory of the IDX files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6000, help="steps of a run of ours")
    parser.add_argument("--seconds", type=float, default=4.0, help="measured time of a run of theirs")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        mine, others = {}, {}
        if options.bin:
            records = work / "records"
            measure.run([options.bin / "tfrecord_convert", "mnist", "--input", options.data, "--output", records])

            def add(name, ranks, *extra):
                mine[name] = lambda: ours(options.bin, records, work, ranks, extra, options.steps)

            plain = ("--summary-every", 0, "--log-every", 100)
            add("Carillon, 1 rank, 1 thread", 1, "--threads", 1, *plain)
            add("Carillon, 1 rank, 2 threads", 1, "--threads", 2, *plain)
            add("Carillon, 2 ranks", 2, "--threads", 1, *plain)
            add("Carillon, 2 ranks, default logs and summaries", 2, "--threads", 1)
        for variant, flags in (
            ("eager, foreach", ()),
            ("eager, fused", ("--optimizer", "fused")),
            ("compiled, fused", ("--optimizer", "fused", "--compile")),
        ):
            if options.no_compile and "--compile" in flags:
                continue
            for threads in (1, 2):
                name = f"PyTorch {variant}, {threads} thread{'s' if threads > 1 else ''}"
                others[name] = lambda threads=threads, flags=flags: theirs(
                    options.data, options.seconds, threads, *flags
                )
            if "--compile" not in flags:
                name = f"PyTorch {variant}, gloo DDP, 2 ranks"
                others[name] = lambda flags=flags: theirs_distributed(options.data, options.seconds, 2, work, *flags)

        lines = [
            *measure.conditions(
                options.rounds, PyTorch=importlib.metadata.version("torch"), Python=sys.version.split()[0]
            ),
            "",
        ]
        found = measure.interleaved(options.rounds, mine | others)
        if mine:
            lines += measure.comparison(found, list(mine), list(others), "examples")
        else:
            lines += measure.table(found, "examples")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
