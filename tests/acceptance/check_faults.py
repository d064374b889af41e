"""Faults beside bad input: a full disk, ranks that differ, signals at any time, a closed terminal, a finished run.

Each case must end by itself within a time, with the documented exit code, and leave the train directory as it should.
"""

import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import programs
from bad_input import DATA, FAILED, IO, NO_INPUT, USAGE
from idx import read_idx
from processes import (
    TIMEOUT,
    catches,
    changes,
    content,
    each_in,
    faulty,
    rank_process,
    replace_in_memory,
    two,
    wait_for,
)
from programs import SCALED, ProgramFailed, Result, checkpoint, checkpoints, load, same_bits
from tfrecords import frame, read_records

STOPPED = 75
BATCH = ("--batch-size", 20)
SMALL = (*SCALED, *BATCH, "--summary-every", 0)


def check(context):
    """faults"""
    for case in (
        _damage_met_in_training,
        _diverged_update,
        _diverged_ahead,
        _changed_variable,
        _full_disk,
        _failed_once,
        _no_space,
        _fresh,
        _finished_run,
        _nothing_to_train,
        _programs_differ,
        _options_differ,
        _evaluations_differ,
        _signals_at_start,
        _signals_at_the_end,
        _closed_output,
        _absurd_options,
        _read_only_directory,
    ):
        try:
            yield from case(context, context.small_set(1000))
        except ProgramFailed as error:
            yield Result(f"faults: {case.__doc__}", False, str(error))


def _judge(title, done, code, names=(), wrong=""):
    wrong = done.complaint(code, names) or wrong
    return Result(f"faults: {title}", not wrong, wrong or (done.lines[0] if code else "exit code 0"))


def _train(context, data, train_dir, *options, common=SMALL):
    return context.train(
        *common, *options, data=data, train_dir=train_dir, ranks=2, expect=None, timeout=TIMEOUT
    )  # fmt: skip


def _trained(context, data, steps, *options):
    """A train directory with checkpoints of steps/2 and `steps`."""
    run = context.directory("faults")
    done = _train(context, data / "train-*", run, "--max-steps", steps, "--checkpoint-every", steps // 2, *options)
    if done.code != 0:
        raise ProgramFailed(done.explain())
    return run


def _precision(done):
    return re.findall(r"precision @ 1 = .*", done.output)


def _start(context, data, train_dir, *options, common=SMALL, environment=()):
    """A training in the background at 2 ranks."""
    patterns = data if isinstance(data, list) else [data / "train-*"]
    fixed = ("--data", *patterns, "--train-dir", train_dir, "--device", "cpu", *common)
    return context.start(context.command("mnist_train", *fixed, *options, ranks=2), environment)


def _damage_met_in_training(context, data):
    """a damaged record that is read only in training"""
    (source,) = data.glob("train-*")
    framed = [frame(record) for record in read_records(source)]
    content = bytearray(b"".join(framed))
    content[sum(map(len, framed[:150])) + len(framed[150]) // 2] ^= 1
    path = context.directory("damaged")
    path.write_bytes(content)
    done = _train(context, path, context.directory("faults"), "--cache", "none", "--shuffle", "false")
    yield _judge("a damaged record that is read only in training", done, DATA, [path.name, "150"])


def _diverged_update(context, data):
    """an update that is not finite"""
    run = context.directory("faults")
    done = _train(context, data / "train-*", run, "--learning-rate", "1e38", "--max-steps", 1, common=BATCH)
    left = [path.name for path in checkpoints(run)]
    yield _judge("the only update is not finite", done, FAILED, wrong=f"left {left}" if left else "")


def _fake_gpus(context):
    """The program on a fake GPU."""
    program = "fake_cuda/mnist_train"
    if not (context.binaries / program).exists():
        raise ProgramFailed(f"there is no {context.binaries / program}: the tests are not built")
    return program


def _diverged_ahead(context, data):
    """a diverged step on a GPU that is steps ahead"""
    causes = []
    for program, device in (("mnist_train", "cpu"), (_fake_gpus(context), "cuda")):
        done = context.train(
            *BATCH, "--learning-rate", "1e25", "--regularization", 0, "--max-steps", 200, "--log-every", 0,
            "--on-nan", "report", data=data / "train-*", train_dir=context.directory("faults"), program=program,
            device=device, expect=None, timeout=TIMEOUT,
        )  # fmt: skip
        causes.append(re.search(r"at step \d+; .* of op \w+.*?: record \d+|$", done.errors)[0])
    wrong = "" if causes[0] and causes[0] == causes[1] else f"CPU: {causes[0]}; GPU: {causes[1]}"
    yield _judge("a diverged step on a GPU has the cause it has on a CPU", done, FAILED, wrong=wrong)


def _changed_variable(context, data):
    """a rank's variable that memory has changed"""
    # CPUs of one host take each other's variables with every step; ranks on a fake GPU keep theirs.
    program = _fake_gpus(context)
    # Weights from a pixel that is black in all images keep their first values, by which memory is searched for them.
    images, _ = read_idx(context.images, "train")
    pixel = int(np.flatnonzero(images[:1000].max(axis=0) == 0)[0])
    options = (*SMALL, "--regularization", 0, "--device", "cuda", "--comm", "mpi", "--data", data / "train-*")
    initial = context.directory("faults")
    context.run(program, *options, "--train-dir", initial, "--max-steps", 0)
    weights = load(checkpoint(initial, 0))["variables/layer1/weights"][pixel]
    run, save_every, check_every = context.directory("faults"), 20, 1000000  # before each checkpoint, too
    command = context.command(
        program, *options, "--train-dir", run, "--max-steps", 10000,
        "--checkpoint-every", save_every, "--check-replicas", check_every, ranks=3,
    )  # fmt: skip
    process = context.start(command)
    wait_for(process, lambda: checkpoint(run, save_every).exists(), "a first checkpoint")
    places = replace_in_memory(rank_process(process, 1), weights.tobytes(), (weights + 1).tobytes())
    done = context.finish(process, TIMEOUT)
    # An update under way may write over what was changed, of either.
    expected = r"(?:variable|moving_average of) layer1/weights after step (\d+): rank 1 on \S+ differs from the other 2$"
    found = re.search(expected, done.errors, re.MULTILINE)
    step = int(found[1]) if found else 0
    newest = max(int(re.search(r"ckpt-(\d+)", path.name)[1]) for path in checkpoints(run) if load(path))
    wrong = done.complaint(FAILED) or ("" if places else "nothing was changed") or ("" if found else done.explain())
    if not wrong and (step % save_every or newest != step - save_every):
        wrong = f"found after step {step}, the newest checkpoint is of step {newest}"
    yield _judge("a variable of one rank of three is changed in memory", done, FAILED, wrong=wrong)


def _full_disk(context, data):
    """a full disk at a checkpoint"""
    run = context.directory("faults")
    process = _start(
        context, data, run, "--max-steps", 1000000, "--checkpoint-every", 200, "--keep-checkpoints", 0,
        "--checkpoint-failures", 0,
    )  # fmt: skip
    wait_for(process, lambda: checkpoint(run, 200).exists(), "a first checkpoint")
    # From here on no file of rank 0 can grow beyond a part of a checkpoint.
    limit = checkpoint(run, 200).stat().st_size // 2
    resource.prlimit(rank_process(process, 0), resource.RLIMIT_FSIZE, (limit, limit))
    done = context.finish(process, TIMEOUT)
    left = [path.name for path in run.iterdir() if path.name.endswith(".tmp")]
    yield _judge("full disk at a checkpoint", done, IO, ["model.ckpt-"], f"left {left}" if left else "")
    wrong = [path.name for path in checkpoints(run) if not load(path)]
    again = context.run(
        "mnist_eval", "--data", data / "test-*", "--checkpoint", run, expect=None, timeout=TIMEOUT
    )  # fmt: skip
    yield _judge("full disk: the older checkpoint loads", again, 0, wrong=", ".join(wrong))


def _failed_once(context, data):
    """a checkpoint that fails once"""
    steps, every = 900, 300
    expected = checkpoint(_trained(context, data, steps), steps)
    fault = faulty(context, "fsync", f"*model.ckpt-{every}.*", errno=errno.EIO, times=1)
    for failures in (1, 0):
        run = context.directory("faults")
        options = ("--checkpoint-every", every, "--keep-checkpoints", 0, "--checkpoint-failures", failures)
        done = context.finish(_start(context, data, run, "--max-steps", steps, *options, environment=fault), TIMEOUT)
        kept = [int(re.search(r"ckpt-(\d+)", path.name)[1]) for path in checkpoints(run) if load(path)]
        if failures:
            told = [line for line in done.lines if line.startswith("warning: ") and "Input/output error" in line]
            wrong = "" if done.code == 0 and len(told) == len(done.lines) == 1 else done.explain()
            wrong = wrong or same_bits(expected, checkpoint(run, steps))
            yield Result("faults: a checkpoint that fails once costs nothing", not wrong, wrong or told[0])
            continue
        wrong = "" if len(kept) == 1 and every < kept[0] < 2 * every else f"checkpoints of {kept}"
        names = [f"model.ckpt-{every}.h5", "Input/output error", "--checkpoint-failures 0"]
        yield _judge("--checkpoint-failures 0 ends at the first, with a checkpoint", done, IO, names, wrong)
        done = _train(context, data / "train-*", run, "--max-steps", steps)
        yield _judge("and goes on from there", done, 0, wrong=same_bits(expected, checkpoint(run, steps)))


def _no_space(context, data):
    """no room for a checkpoint"""
    run = context.directory("small")
    full = faulty(context, "statvfs", run, action="full")
    done = context.finish(_start(context, data, run, "--max-steps", 5, environment=full), TIMEOUT)
    left = ", ".join(path.name for path in checkpoints(run))
    yield _judge("no room for a checkpoint is found before step 1", done, IO, [str(run), "MiB are free"], left)


def _fresh(context, data):
    """--fresh"""
    run = _trained(context, data, 100)
    for name in ("model.ckpt-best.h5", "notes.txt", "events.txt"):
        (run / name).write_text("mine")
    before = content(run)
    done = _train(context, data / "train-*", run, "--fresh", "--init-from", run / "absent.h5", "--max-steps", 5)
    yield _judge("--fresh --init-from a missing file", done, NO_INPUT, ["absent.h5"], changes(run, before))

    done = _train(context, data / "train-*", run, "--fresh", "--init-from", checkpoint(run, 50), "--max-steps", 60)
    found = {path.name for path in run.iterdir()}
    kept = {"model.ckpt-best.h5", "notes.txt", "events.txt"}
    wrong = f"directory: {sorted(found)}" if not kept | {"model.ckpt-60.h5"} <= found else ""
    wrong = wrong or ("model.ckpt-100.h5 is still there" if "model.ckpt-100.h5" in found else "")
    yield _judge("--fresh --init-from a checkpoint of the same directory", done, 0, wrong=wrong)


def _finished_run(context, data):
    """a finished command again"""
    evaluating = ("--eval-data", data / "test-*", "--eval-every", 50)
    run = _trained(context, data, 100, *evaluating)
    before = content(run)
    done = _train(context, data / "train-*", run, "--max-steps", 100, "--checkpoint-every", 50, *evaluating)
    wrong = changes(run, before) or ("" if "nothing to do" in done.output else f"it says: {done.output[-200:]}")
    yield _judge("a finished command again changes nothing and says so", done, 0, wrong=wrong)


def _nothing_to_train(context, data):
    """--max-steps 0 on a trained directory"""
    run = _trained(context, data, 20)
    before = content(run)
    done = _train(context, data / "train-*", run, "--max-steps", 0)
    yield _judge("--max-steps 0 on a trained directory changes nothing", done, 0, wrong=changes(run, before))


def _programs_differ(context, data):
    """ranks of different programs"""
    run = context.directory("faults")
    training = [context.binaries / "mnist_train", "--data", data / "train-*", "--train-dir", run]
    evaluation = [context.binaries / "mnist_eval", "--data", data / "test-*", "--checkpoint", run]
    done = two(context, training, evaluation)
    yield _judge("ranks of mnist_train and mnist_eval", done, USAGE, ["mnist_eval"])
    done = two(context, training, [context.binaries / "mnist_train", "--help"])
    yield _judge("--help on one rank", done, USAGE, ["ranks disagree"])


def _options_differ(context, data):
    """ranks of different options"""
    absent = [context.binaries / "mnist_train", "--data", data / "absent-*", "--train-dir", context.directory("faults")]
    for option, first, second in (("--device", "cpu", "auto"), ("--batch-size", 10, 20), ("--seed", 1, 2)):
        done = two(context, [*absent, option, first], [*absent, option, second])
        yield _judge(f"ranks differ in {option}, found before data is read", done, USAGE, [option])


def _evaluations_differ(context, data):
    """evaluation of different files"""
    folders = [context.directory("rank"), context.directory("rank")]
    (records,) = data.glob("test-*")
    framed = [frame(record) for record in read_records(records)]
    for folder, steps, kept in zip(folders, (0, 100), (framed[:50], framed[50:])):
        folder.mkdir()
        trained = _trained(context, data, steps) if steps else _initial(context, data)
        shutil.copy(checkpoint(trained, steps), folder / "model.h5")
        (folder / "data").write_bytes(b"".join(kept))
    done = each_in(context, folders, "mnist_eval", "--data", "data", "--checkpoint", folders[0] / "model.h5")
    yield _judge("mnist_eval of other records on each rank", done, USAGE, ["rank"])
    done = each_in(context, folders, "mnist_eval", "--data", records, "--checkpoint", "model.h5")
    expected = [
        _precision(context.run("mnist_eval", "--data", records, "--checkpoint", folder / "model.h5"))
        for folder in folders
    ]
    wrong = "" if _precision(done) == expected[0] != expected[1] else f"{_precision(done)}, not {expected[0]}"
    yield _judge("mnist_eval of other checkpoints: all ranks take rank 0's", done, 0, wrong=wrong)


def _initial(context, data):
    run = context.directory("faults")
    context.train("--max-steps", 0, data=data / "train-*", train_dir=run)
    return run


def _signals_at_start(context, data):
    """signals during start-up"""
    delays = (0.0, 0.05, 0.3, 0.6, 1.0, 2.0) if context.quick else (0.0, *(n / 10 for n in range(1, 21)))
    first = None  # as soon as there is a handler, while records are read
    many = [data / "train-*"] * 100
    for number, delay in enumerate((first, *delays)):
        kind = (signal.SIGUSR1, signal.SIGTERM)[number % 2]
        run = context.directory("faults")
        records = many if delay is first else data
        process = _start(context, records, run, "--max-steps", 10000000, "--checkpoint-every", 10000000)
        pid = rank_process(process, number // 2 % 2)
        if delay is first:
            wait_for(process, lambda: catches(pid, kind), "a handler")
            caught, early = True, not run.exists()
        else:
            time.sleep(delay)
            caught, early = catches(pid, kind), True
        programs.signal_process(pid, kind)
        done = context.finish(process, TIMEOUT)
        wrong = "" if early else "the handler comes after the train directory"
        if done.code == 128 + kind:
            wrong = "died of a signal that it had a handler for" if caught else ""
        elif done.code != STOPPED:
            wrong = done.explain()
        elif not [path for path in checkpoints(run) if load(path)]:
            wrong = "no checkpoint"
        when = "with its first handler" if delay is first else f"after {delay} s"
        yield Result(f"faults: {kind.name} to a rank {when}", not wrong, wrong or f"exit code {done.code}")


def _signals_at_the_end(context, data):
    """signals at the last step"""
    steps = 40
    options = ("--max-steps", steps, "--log-every", 1, "--eval-data", data / "test-*")
    slow = (*SCALED, "--batch-size", 1000, "--summary-every", 0)
    for line, rank in ((steps - 5, 1), (steps - 2, 0), (steps - 1, 1), (steps - 1, 0), (steps, 1)):
        run = context.directory("faults")
        log = run / "metrics.jsonl"
        process = _start(context, data, run, *options, common=slow)
        pid = rank_process(process, rank)
        wait_for(process, lambda: log.exists() and log.read_bytes().count(b"\n") >= line, f"{line} logged steps")
        programs.signal_process(pid, signal.SIGUSR1)
        codes = [context.finish(process, TIMEOUT).code]
        while codes[-1] == STOPPED and len(codes) < 5:
            codes.append(context.finish(_start(context, data, run, *options, common=slow), TIMEOUT).code)
        evaluations = [entry["step"] for entry in programs.metrics(run) if "eval_precision" in entry]
        found = [step for step, _ in sorted(programs.losses(run).items())]
        passed = codes[-1] == 0 and set(codes) <= {0, STOPPED}
        passed &= evaluations.count(steps) == 1 and found == list(range(steps)) and checkpoint(run, steps).exists()
        detail = f"exit codes {codes}, evaluations of {evaluations}, {len(found)} steps logged"
        yield Result(f"faults: USR1 to rank {rank} after {line} of {steps} logged steps", passed, detail)


def _closed_output(context, data):
    """closed output"""
    expected = checkpoint(_trained(context, data, 20), 20)
    for name, redirection in (("stdout", ">&-"), ("stderr", "2>&-"), ("both", ">&- 2>&-")):
        run = context.directory("faults")
        command = context.command(
            "mnist_train", "--data", data / "train-*", "--train-dir", run, "--device", "cpu", *SMALL, "--max-steps", 20,
            "--log-every", 5, ranks=2,
        )  # fmt: skip
        at = command.index(str(context.binaries / "mnist_train"))
        command[at:at] = ["bash", "-c", f'exec "$0" "$@" {redirection}']
        done = context.run_command(command, TIMEOUT)
        wrong = f"exit code {done.code}" if done.code else same_bits(expected, checkpoint(run, 20))
        found = [] if wrong else list(programs.losses(run))
        wrong = wrong or ("" if found == [0, 5, 10, 15] else f"logged steps {found}")
        yield Result(f"faults: training goes on with {name} closed", not wrong, wrong or "the same checkpoint and log")
    with open("/dev/full", "w") as full:
        command = context.command("mnist_eval", "--data", data / "test-*", "--checkpoint", expected)
        done = subprocess.run(
            command, env=context.environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT
        )
    done = programs.Finished(command, done.returncode, "", done.stderr)
    yield _judge("mnist_eval to a full disk", done, IO, ["standard output"])


def _absurd_options(context, data):
    """absurd options"""
    for option, value, codes in (
        ("--config", data, (USAGE, NO_INPUT)),
        ("--batch-size", "4611686018427387904", (USAGE,)),
        ("--threads", "100000", (USAGE,)),
        ("--pixel-scale", "1e-60", (USAGE,)),
    ):
        for ranks in (0,) if context.quick else (0, 2):
            done = context.train(
                option, value, data=data / "train-*", train_dir=context.directory("faults"), ranks=ranks, expect=None,
                timeout=TIMEOUT,
            )  # fmt: skip
            name = str(value) if option == "--config" else option
            code = done.code if done.code in codes else codes[0]
            yield _judge(f"{option} {'DIRECTORY' if value == data else value}, {ranks} ranks", done, code, [name])


def _read_only_directory(context, data):
    """a read-only train directory"""
    run = _initial(context, data)
    run.chmod(0o555)
    try:
        command = context.command(
            "mnist_train", "--data", data / "train-*", "--train-dir", run, "--device", "cpu", "--max-steps", 5
        )
        if os.geteuid() == 0:  # who may write everywhere, except without these capabilities
            command = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search", *command]
        before = content(run)
        done = context.run_command(command, TIMEOUT)
        yield _judge("a read-only train directory with a lock file", done, IO, [str(run)], changes(run, before))
    finally:
        run.chmod(0o755)


if __name__ == "__main__":
    programs.main(check)
