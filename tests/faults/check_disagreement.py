"""Tests runs whose ranks have different programs, options, evaluation records or checkpoints."""

import re
import shutil

from cases import initial, judge, results, trained

import programs
from bad_input import USAGE
from processes import each_in, two
from programs import checkpoint
from tfrecords import frame, read_records


def check(context):
    """disagreement"""
    yield from results(context, (_programs_differ, _options_differ, _evaluations_differ))


def _precision(done):
    return re.findall(r"precision @ 1 = .*", done.output)


def _programs_differ(context, data):
    """ranks of different programs"""
    run = context.directory("faults")
    training = [context.binaries / "mnist_train", "--data", data / "train-*", "--train-dir", run]
    evaluation = [context.binaries / "mnist_eval", "--data", data / "test-*", "--checkpoint", run]
    done = two(context, training, evaluation)
    yield judge("ranks of mnist_train and mnist_eval", done, USAGE, ["mnist_eval"])
    done = two(context, training, [context.binaries / "mnist_train", "--help"])
    yield judge("--help on one rank", done, USAGE, ["ranks disagree"])


def _options_differ(context, data):
    """ranks of different options"""
    absent = [context.binaries / "mnist_train", "--data", data / "absent-*", "--train-dir", context.directory("faults")]
    for option, first, second in (("--device", "cpu", "auto"), ("--batch-size", 10, 20), ("--seed", 1, 2)):
        done = two(context, [*absent, option, first], [*absent, option, second])
        yield judge(f"ranks differ in {option}, found before data is read", done, USAGE, [option])


def _evaluations_differ(context, data):
    """evaluation of different files"""
    folders = [context.directory("rank"), context.directory("rank")]
    (records,) = data.glob("test-*")
    framed = [frame(record) for record in read_records(records)]
    for folder, steps, kept in zip(folders, (0, 100), (framed[:50], framed[50:])):
        folder.mkdir()
        run = trained(context, data, steps) if steps else initial(context, data)
        shutil.copy(checkpoint(run, steps), folder / "model.h5")
        (folder / "data").write_bytes(b"".join(kept))
    done = each_in(context, folders, "mnist_eval", "--data", "data", "--checkpoint", folders[0] / "model.h5")
    yield judge("mnist_eval with different records on each rank", done, USAGE, ["rank"])
    done = each_in(context, folders, "mnist_eval", "--data", records, "--checkpoint", "model.h5")
    expected = [
        _precision(context.run("mnist_eval", "--data", records, "--checkpoint", folder / "model.h5"))
        for folder in folders
    ]
    wrong = "" if _precision(done) == expected[0] != expected[1] else f"{_precision(done)}, not {expected[0]}"
    yield judge("mnist_eval with different checkpoints: all ranks use rank 0's", done, 0, wrong=wrong)


if __name__ == "__main__":
    programs.main(check)
