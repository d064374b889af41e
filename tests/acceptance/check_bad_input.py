"""After bad input or bad options, a program prints one line that names the cause, exits with the documented code,
writes no checkpoint and does not hang.

Every case runs without mpirun and at 2 ranks. At 2 ranks, the quick form runs only one case of each kind.
"""

import gzip
import shlex
import shutil

import numpy as np

import bad_input
import programs
from bad_input import DATA, FAILED, MNIST, NO_DEVICE, NO_INPUT, TIMEOUT, USAGE, verdict
from programs import SCALED, Result, checkpoint, checkpoints, load
from tfrecords import read_records


def check(context):
    """bad input"""
    data = context.small_set(200)
    (good,) = sorted(data.glob("train-*.tfrecord"))[:1]
    folder = context.directory("bad")
    folder.mkdir()
    for ranks in (0, 2):
        for title, content in bad_input.cases(
            context, ranks, bad_input.damaged_files(read_records(good), MNIST)
        ):
            path = folder / f"{title.replace(' ', '_')}.tfrecord"
            path.write_bytes(content)
            yield bad_input.train(context, MNIST, title, ranks, DATA, [path.name], data=path)
        options_by_kind = ((_kind(case), case) for case in _options(folder))
        for title, code, names, options in bad_input.cases(context, ranks, options_by_kind):
            yield bad_input.train(context, MNIST, title, ranks, code, names, *options, data=good)
        yield bad_input.train(
            context, MNIST, "missing file", ranks, NO_INPUT, ["absent.tfrecord"], data=folder / "absent.tfrecord"
        )
        yield bad_input.train(
            context, MNIST, "pattern without a match", ranks, NO_INPUT, ["absent-"], data=folder / "absent-*"
        )
        yield _diverging(context, ranks, good, "diverging run", ["diverged"])
        yield _diverging(
            context, ranks, good, "diverging run, --on-nan report",
            ["diverged", "output of op layer", good.name, "record", "label"], "--on-nan", "report",
        )  # fmt: skip
        yield from _evaluation(context, ranks, data)
    yield from _record_files(context, data)
    yield _ranks_disagree(context, good)
    yield from _conversion(context)


def _kind(case):
    """Returns the kind of a case. If a rank finds the error before the ranks synchronise, the kind is the exit code;
    otherwise it is "memory"."""
    title, code, *_ = case
    return "memory" if "memory" in title else code


def _options(folder):
    """Yields (title, exit code, words that the error line must contain, options)."""
    yield "unknown option", USAGE, ["no-such-option"], ["--no-such-option", "3"]
    yield "batch size 0", USAGE, ["batch-size", "0"], ["--batch-size", "0"]
    yield "batch size -4", USAGE, ["batch-size", "-4"], ["--batch-size", "-4"]
    yield "batch size ten", USAGE, ["batch-size", "ten"], ["--batch-size", "ten"]
    yield "learning rate nan", USAGE, ["learning-rate", "nan"], ["--learning-rate", "nan"]
    yield "max steps -1", USAGE, ["max-steps", "-1"], ["--max-steps", "-1"]
    yield "batch size beyond memory", USAGE, ["--batch-size 16777216"], ["--batch-size", 1 << 24]
    yield "global batch beyond memory", USAGE, ["--global-batch 16777216"], ["--global-batch", 1 << 24]
    yield "control characters", USAGE, ["seed", "'\\x1b[2J\\x0a7'"], ["--seed=\x1b[2J\n7"]
    yield "batch size beyond integers", USAGE, ["--batch-size"], ["--batch-size", "4611686018427387904"]
    yield "threads 100000", USAGE, ["--threads"], ["--threads", "100000"]
    yield "a pixel scale that is 0 in float32", USAGE, ["--pixel-scale"], ["--pixel-scale", "1e-60"]
    yield "a directory as recipe", USAGE, [f"--config {folder}"], ["--config", folder]
    yield "resume perhaps", USAGE, ["resume", "perhaps"], ["--resume", "perhaps"]
    recipe = folder / "wrong.cfg"
    recipe.write_text("batch-size = 50\nbatch-sise = 60\n")
    yield "unknown option in a recipe", USAGE, ["batch-sise"], ["--config", recipe]
    recipe = folder / "long.cfg"
    recipe.write_text("seed = " + "x" * 1_000_000)
    yield "an endless value", USAGE, ["--seed", "bytes]...", "is not a whole number"], ["--config", recipe]
    yield "a device as recipe", USAGE, ["--config /dev/zero"], ["--config", "/dev/zero"]
    yield "missing recipe", NO_INPUT, ["absent.cfg"], ["--config", folder / "absent.cfg"]
    yield "missing initial checkpoint", NO_INPUT, ["absent.h5"], ["--init-from", folder / "absent.h5"]
    text = folder / "text.h5"
    text.write_text("not a checkpoint\n" * 100)
    yield "damaged initial checkpoint", DATA, ["text.h5"], ["--init-from", text]
    if not shutil.which("nvidia-smi"):
        yield "device cuda without a GPU", NO_DEVICE, ["cuda"], ["--device", "cuda"]


def _diverging(context, ranks, data, title, names, *options):
    train_dir = context.directory("diverging")
    done = context.train(
        "--learning-rate", "1000", "--max-steps", 200, "--checkpoint-every", 1, *options, data=data,
        train_dir=train_dir, ranks=ranks, expect=None, timeout=TIMEOUT,
    )  # fmt: skip
    bad = [
        path.name
        for path in checkpoints(train_dir)
        if not all(np.isfinite(array).all() for array in load(path).values())
    ]
    return verdict(title, ranks, done, FAILED, names, f"not finite: {bad}" if bad else "")


def _evaluation(context, ranks, data):
    """Runs mnist_eval with a checkpoint that does not exist, and with a checkpoint in which one byte is changed."""
    train_dir = context.directory("eval")
    context.train(*SCALED, "--max-steps", 2, data=data / "train-*.tfrecord", train_dir=train_dir)
    path = checkpoint(train_dir, 2)
    test = data / "test-*.tfrecord"

    def evaluate(target):
        return context.run(
            "mnist_eval", "--data", test, "--checkpoint", target, ranks=ranks, expect=None, timeout=TIMEOUT
        )

    yield verdict("evaluate a missing checkpoint", ranks, evaluate(train_dir / "x.h5"), NO_INPUT, ["x.h5"])
    content = path.read_bytes()
    old, new = b'"scale":0.003921569', b'"scale":"0.0039215"'
    path.write_bytes(bad_input.forged_checkpoint(content, old, new))
    names = [path.name, "the op 'input' of type image_input: the attribute 'scale' is not a number"]
    yield verdict("evaluate a checkpoint with a string as the scale of its input op", ranks, evaluate(path), DATA, names)
    positions = np.random.default_rng(ranks).integers(0, len(content), 2 if context.quick else 20)
    silent = []
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(position % 8)
        path.write_bytes(damaged)
        done = evaluate(path)
        if done.code != DATA or len(done.lines) != 1 or path.name not in done.lines[0]:
            silent.append(f"byte {position}: {done.explain()}")
    yield Result(
        f"bad input: {len(positions)} single flipped bits in a checkpoint, {ranks} ranks",
        not silent,
        "; ".join(silent) or "each rejected with exit code 65",
    )


def _record_files(context, data):
    """Runs trainings whose --data names folders, missing shards, GZIP files and test records. If the error line advises
    options or a command, also runs the training with these options, or the command."""

    def train(patterns, *options, program="mnist_train"):
        return context.train(
            *SCALED, "--max-steps", 1, *options, data=patterns, train_dir=context.directory(), program=program, expect=None
        )

    def advised(done, start):
        """Returns the words after `start` in the error line."""
        return shlex.split(done.errors.partition(start)[2].splitlines()[0]) if start in done.errors else []

    done = train(data)
    pattern = advised(done, "name its files: ")
    wrong = done.complaint(DATA, [f"{data}: is a directory", "train-*"]) or train(*pattern).complaint(0)
    yield Result("bad input: a folder as --data is refused with a pattern of the training records", not wrong, wrong)
    done = train(data / "train-*", "--eval-data", data)
    pattern = advised(done, "name its files: ")
    wrong = done.complaint(DATA, ["test-*"]) or train(data / "train-*", "--eval-data", *pattern).complaint(0)
    yield Result("bad input: a folder as --eval-data is refused with a pattern of the test records", not wrong, wrong)
    done = train(data / "*", "--eval-data", data / "test-*")
    said = "--data and --eval-data both contain" in done.errors and "test-00000-of-00001.tfrecord" in done.errors
    yield Result("bad input: test records in --data are reported", done.code == 0 and said, done.explain())

    shards = context.directory("shards")
    source = next(context.work.glob("idx-200-*"))
    context.run("tfrecord_convert", "mnist", "--input", source, "--output", shards, "--shards", 4)
    run = context.directory()
    context.train(*SCALED, "--max-steps", 1, data=shards / "train-*", train_dir=run)
    for split in ("train", "test"):
        (shards / f"{split}-00002-of-00004.tfrecord").unlink()
    evaluation = ("mnist_eval", "--data", shards / "test-*", "--checkpoint", run)
    for title, execute, shard in (
        ("training", lambda *options: train(shards / "train-*", *options), "train-00002"),
        ("evaluation during a training", lambda *options: train(data / "train-*", "--eval-data", shards / "test-*", *options), "test-00002"),
        ("evaluation", lambda *options: context.run(*evaluation, *options, expect=None), "test-00002"),
        ("inspection", lambda *options: context.run("carillon", "inspect", shards, *options, expect=None), "test-00002"),
    ):
        option = "--allow-missing-shards"
        wrong = execute().complaint(NO_INPUT, [f"{shard}-of-00004.tfrecord: this shard of 4 is missing", option])
        wrong = wrong or execute(option).complaint(0)
        yield Result(f"bad input: a missing shard ends the {title}, unless {option} is given", not wrong, wrong)

    packed = context.directory("packed").with_suffix(".tfrecord")
    with gzip.open(packed, "wb") as file:
        file.write(next(data.glob("train-*")).read_bytes())
    done = train(packed, "--cache", "none")
    wrong = done.complaint(USAGE, [packed.name, "decompress it: "])
    command = done.errors.partition("decompress it: ")[2].splitlines()[:1]
    wrong = wrong or context.run_command(["sh", "-c", *command]).complaint(0) or train(packed, "--cache", "none").complaint(0)
    yield Result("bad input: GZIP records without the cache are read after the command of the message", not wrong, wrong)


def _ranks_disagree(context, data):
    first, second = context.directory("disagree"), "--learning-rate"
    each = ["mnist_train", "--data", data, "--train-dir", first, "--max-steps", 5, second]
    one, two = ([context.binaries / each[0], *each[1:], rate] for rate in ("0.001", "0.002"))
    done = context.run_command(programs.one_rank_each(one, two), TIMEOUT)
    left = [path.name for path in checkpoints(first)]
    return verdict("ranks with different options", 2, done, USAGE, ["learning-rate"], f"left {left}" if left else "")


def _conversion(context):
    yield bad_input.convert(context, "mnist", "a missing directory", NO_INPUT, ["absent"], context.work / "absent")
    source = context.directory("idx")
    source.mkdir()
    for split in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            (source / f"{split}-{kind}-ubyte").write_bytes(b"P5 28 28 255\n" + bytes(2000))
    yield bad_input.convert(context, "mnist", "not an IDX file", DATA, ["idx"], source)


if __name__ == "__main__":
    programs.main(check)
