"""Tests corrupt data and state: a damaged record, non-finite updates, and memory errors in a record and in a
variable."""

import re

import numpy as np
from cases import BATCH, SMALL, judge, results, start, train

import programs
from bad_input import DATA, FAILED
from idx import read_idx
from processes import TIMEOUT, rank_process, replace_in_memory, wait_for
from programs import ProgramFailed, Result, checkpoint, checkpoints, load
from tfrecords import frame, read_records


def check(context):
    """corruption"""
    yield from results(context, _CASES)


def fake_gpus(context):
    """Returns the name of the mnist_train for the fake GPU. Raises ProgramFailed if it is not built."""
    program = "fake_cuda/mnist_train"
    if not (context.binaries / program).exists():
        raise ProgramFailed(f"{context.binaries / program} does not exist: build the tests first")
    return program


def _damage_met_in_training(context, data):
    """a damaged record that is read only in training"""
    (source,) = data.glob("train-*")
    framed = [frame(record) for record in read_records(source)]
    content = bytearray(b"".join(framed))
    content[sum(map(len, framed[:150])) + len(framed[150]) // 2] ^= 1
    path = context.directory("damaged")
    path.write_bytes(content)
    done = train(context, path, context.directory("faults"), "--cache", "none", "--shuffle", "false")
    yield judge("a damaged record that is read only in training", done, DATA, [path.name, "150"])


def _diverged_update(context, data):
    """a non-finite update"""
    run = context.directory("faults")
    done = train(context, data / "train-*", run, "--learning-rate", "1e38", "--max-steps", 1, common=BATCH)
    left = [path.name for path in checkpoints(run)]
    yield judge("the only update is not finite", done, FAILED, wrong=f"left {left}" if left else "")


def _diverged_ahead(context, data):
    """a diverged step on a GPU whose host is steps ahead"""
    causes = []
    for program, device in (("mnist_train", "cpu"), (fake_gpus(context), "cuda")):
        done = context.train(
            *BATCH, "--learning-rate", "1e25", "--regularization", 0, "--max-steps", 200, "--log-every", 0,
            "--on-nan", "report", data=data / "train-*", train_dir=context.directory("faults"), program=program,
            device=device, expect=None, timeout=TIMEOUT,
        )  # fmt: skip
        causes.append(re.search(r"at step \d+; .* of op \w+.*?: record \d+|$", done.errors)[0])
    wrong = "" if causes[0] and causes[0] == causes[1] else f"CPU: {causes[0]}; GPU: {causes[1]}"
    yield judge("a diverged step has the same cause on a GPU and on a CPU", done, FAILED, wrong=wrong)


def _changed_record(context, data):
    """a memory error in a record of one rank's cache"""
    images, _ = read_idx(context.images, "train")
    old = images[150].tobytes()
    new = bytearray(old)
    new[400] ^= 1
    (source,) = data.glob("train-*")
    run = context.directory("faults")
    process = start(context, data, run, "--max-steps", 100000, "--checkpoint-every", 20)
    wait_for(process, lambda: checkpoints(run), "a first checkpoint")
    places = replace_in_memory(rank_process(process, 1), old, bytes(new))
    done = context.finish(process, TIMEOUT)
    wrong = "" if places == 1 else f"changed {places} places instead of 1"
    for path in checkpoints(run):
        load(path)
    names = ["rank 1", f"{source.name}: record 150: the image or target changed in memory"]
    yield judge("a record of one rank is changed in memory", done, FAILED, names, wrong)


def _changed_variable(context, data):
    """a memory error in a variable of one rank"""
    # CPU ranks on one host exchange the variables in every step, which would repair the change. So the test uses a fake
    # GPU, on which each rank has its own variables.
    program = fake_gpus(context)
    # If a pixel is black in all images, the weights of this pixel keep their initial values. Search the memory for
    # these values.
    images, _ = read_idx(context.images, "train")
    pixel = int(np.flatnonzero(images[:1000].max(axis=0) == 0)[0])
    options = (*SMALL, "--regularization", 0, "--device", "cuda", "--comm", "mpi", "--data", data / "train-*")
    initial = context.directory("faults")
    context.run(program, *options, "--train-dir", initial, "--max-steps", 0)
    weights = load(checkpoint(initial, 0))["variables/layer1/weights"][pixel]
    # Replicas are also compared before each checkpoint, even if --check-replicas is large.
    run, save_every, check_every = context.directory("faults"), 20, 1000000
    command = context.command(
        program, *options, "--train-dir", run, "--max-steps", 10000,
        "--checkpoint-every", save_every, "--check-replicas", check_every, ranks=3,
    )  # fmt: skip
    process = context.start(command)
    wait_for(process, lambda: checkpoint(run, save_every).exists(), "a first checkpoint")
    places = replace_in_memory(rank_process(process, 1), weights.tobytes(), (weights + 1).tobytes())
    done = context.finish(process, TIMEOUT)
    # The error may name the variable or its moving average, because a running update may overwrite the change of one of
    # them.
    expected = r"(?:variable|moving_average of) layer1/weights after step (\d+): rank 1 on \S+ differs from the other 2$"
    found = re.search(expected, done.errors, re.MULTILINE)
    step = int(found[1]) if found else 0
    newest = max(int(re.search(r"ckpt-(\d+)", path.name)[1]) for path in checkpoints(run) if load(path))
    wrong = done.complaint(FAILED) or ("" if places else "nothing was changed") or ("" if found else done.explain())
    if not wrong and (step % save_every or newest != step - save_every):
        wrong = f"found after step {step}, the newest checkpoint is of step {newest}"
    yield judge("a variable of one rank of three is changed in memory", done, FAILED, wrong=wrong)


_CASES = (
    _damage_met_in_training, _diverged_update, _diverged_ahead, _changed_record, _changed_variable,
)  # fmt: skip

if __name__ == "__main__":
    programs.main(check)
