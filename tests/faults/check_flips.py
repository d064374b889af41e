"""Flipped bits in the memory of one of two ranks of a host, with --check-memory: each flip is found, or does not change the
result. Exception: running statistics that change in a forward pass.

All steps have the same records and a small learning rate. So the values of a checkpoint still identify the arrays in memory
some steps later. Each case flips one bit of one copy of an array, at any moment of a step. A copy may be one that nobody
reads again: then the flip is not found, and the result must be that of an undisturbed run.
"""

import contextlib
import os
import random
import re
import signal
import time

import numpy as np
from cases import TIMEOUT, ProgramFailed, Result

import programs
import training
from bad_input import FAILED, STOPPED
from idx import read_idx
from processes import has_ended, is_stopped, rank_process, wait_for
from programs import checkpoint, load, same_bits

RECORDS, BATCH = 40, 20
WARMUP_STEPS = 200  # steps before the flip: momentum and running statistics are no longer near their initial values
MANY = 100000  # steps that a run does not reach
MOST_STEPS = 2  # until the report: one, and one that is not logged yet
STEPS_AFTER_FLIP = 100  # steps after which a flip counts as not found
ATTEMPTS = 50  # to find an array; at some moments of a step no copy matches
WINDOW = 16  # consecutive elements that identify an array
TOLERANCE, LOOSE_TOLERANCE = 0.01, 0.8  # relative. Dropout changes momentum; each rank has its own running statistics.
NO_EFFECT = "no effect on the result"
NOT_FOUND = "a change in a forward pass that is not found, as documented"
STATISTICS, WEIGHTS, LAST = "conv3/norm", "conv4/weights", "logits/weights"
CASES = [
    *((f"variables/{WEIGHTS}", bit) for bit in (0, 13, 22, 23, 30, 31)),
    *((f"variables/{LAST}", bit) for bit in (0, 22, 30)),
    *((f"optimizer/momentum/{WEIGHTS}", bit) for bit in (0, 13, 22, 23, 30, 31)),
    *((f"moving_averages/{WEIGHTS}", bit) for bit in (0, 22, 30, 31)),
    *((f"state/{STATISTICS}/moving_mean", bit) for bit in (0, 22, 30)),
    *((f"state/{STATISTICS}/moving_variance", bit) for bit in (0, 22, 30)),
    *(("image", bit) for bit in (0, 4, 7)),
    ("label", 0),
]
QUICK = [CASES[place] for place in (0, 10, 17, 20, 25)]


def check(context):
    """flips"""
    data = context.small_set(RECORDS)
    draw = random.Random(1)
    found, steps = 0, []
    for name, bit in QUICK if context.quick else CASES:
        title = f"flips: bit {bit} of {name}"
        try:
            text, needed = _flip(context, data, name, bit, draw)
        except ProgramFailed as error:
            yield Result(title, False, str(error))
            continue
        found += needed is not None
        steps.append(needed or 0)
        passed = text in (NO_EFFECT, NOT_FOUND) if needed is None else needed <= MOST_STEPS
        yield Result(title, passed, text if needed is None else f"after {needed} steps: {text}")
    yield Result("flips: found", found > 0, f"{found} of {len(steps)}, after at most {max(steps, default=0)} steps")


def _command(context, data, run, steps):
    options = (
        "--model", "vgg7", "--data", data / "train-*", "--train-dir", run, "--device", "cpu", "--threads", 1,
        "--batch-size", BATCH, "--shuffle", "false", "--optimizer", "momentum", "--learning-rate", 1e-7,
        "--decay-steps", 0, "--max-steps", steps, "--checkpoint-every", WARMUP_STEPS, "--keep-checkpoints", 0, "--log-every", 1,
        "--summary-every", 0, "--check-memory",
    )  # fmt: skip
    return context.command("mnist_train", *options, ranks=2)


def _flip(context, data, name, bit, draw):
    """(error line, steps until the report), or (difference of the results, None) if nothing was reported."""
    run = context.directory("flips")
    process = context.start(_command(context, data, run, MANY))
    wait_for(process, lambda: checkpoint(run, WARMUP_STEPS).exists(), f"step {WARMUP_STEPS}")
    rank = draw.randrange(2)
    pids = [rank_process(process, number) for number in range(2)]
    places = []
    for _ in range(ATTEMPTS):
        with _stopped(pids):
            places = _places_of(context, run, name, rank, pids[rank])
        time.sleep(draw.uniform(0, 0.1))  # so that the flip happens at a random moment
        if places:
            break
    else:
        programs.kill(process)
        raise ProgramFailed(f"{name} is not in the memory of rank {rank}")
    with _stopped(pids):
        start = _steps(run)
        _flip_in_memory(pids[rank], *draw.choice(places), bit)
    deadline = time.monotonic() + TIMEOUT
    while process.poll() is None and _steps(run) < start + STEPS_AFTER_FLIP and time.monotonic() < deadline:
        time.sleep(0.01)
    if process.poll() is None:
        os.kill(pids[0], signal.SIGTERM)
    done = context.finish(process, TIMEOUT)
    if done.code == FAILED:
        lines = [line for line in done.lines if re.search("changed in memory since", line)]
        if not lines or lines != done.lines:
            raise ProgramFailed(done.explain())
        return lines[0], _steps(run) - start
    if done.code != STOPPED:
        raise ProgramFailed(done.explain())
    last = training.saved_steps(run)[-1]
    whole = context.directory("flips")
    done = context.finish(context.start(_command(context, data, whole, last)), TIMEOUT)
    if done.code:
        raise ProgramFailed(done.explain())
    differs = same_bits(checkpoint(run, last), checkpoint(whole, last))
    if differs == name and name.startswith("state/"):  # changed in a forward pass, before the pass read it
        return NOT_FOUND, None
    return differs or NO_EFFECT, None


@contextlib.contextmanager
def _stopped(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        while not all(is_stopped(pid) or has_ended(pid) for pid in pids):
            time.sleep(0.001)
        yield
    finally:
        for pid in pids:
            programs.signal_process(pid, signal.SIGCONT)


def _steps(run):
    path = run / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def _places_of(context, run, name, rank, pid):
    """[(address, number of bytes)] of an element of an array, or of a record that the rank reads."""
    if name in ("image", "label"):
        images, labels = read_idx(context.images, "train")
        record = images[rank * BATCH + BATCH // 2]
        offset = 400 if name == "image" else record.size
        return [(place + offset, 1) for place, _ in _places(pid, record.tobytes(), None, False)]
    places = list(_places(pid, *_pattern(run, name)))
    if name.startswith("moving_averages/"):  # equal to the variables, which are in another mapping than the slots
        slots = {mapping for _, mapping in _places(pid, *_pattern(run, f"optimizer/momentum/{WEIGHTS}"))}
        places = [place for place in places if place[1] in slots]
    return [(address + 4 * (WINDOW // 2), 4) for address, _ in places]


def _pattern(run, name):
    """(consecutive values, the tolerance for each, whether their memory is shared). Element WINDOW / 2 is of the array."""
    arrays = load(checkpoint(run, WARMUP_STEPS))
    if name.startswith("state/"):  # activations have similar means, but other values follow them
        mean, variance = (arrays[f"state/{STATISTICS}/moving_{kind}"].ravel() for kind in ("mean", "variance"))
        is_mean = name.endswith("mean")
        before, after = (WINDOW // 2 + 1, WINDOW // 2 - 1) if is_mean else (WINDOW // 2, WINDOW // 2)
        mean, deviations = mean[-before:], np.sqrt(variance[-before:])
        window = np.concatenate([mean, variance[:after]])
        return window, LOOSE_TOLERANCE * np.concatenate([deviations, variance[:after]]), False
    values = arrays[name].ravel()
    windows = np.lib.stride_tricks.sliding_window_view(np.abs(values), WINDOW)
    start = int(np.argmax(windows.min(axis=1)))  # the largest values differ most from those of other arrays
    window = values[start : start + WINDOW]
    return window, (LOOSE_TOLERANCE if "momentum" in name else TOLERANCE) * np.abs(window), True


def _places(pid, pattern, tolerance, shared):
    """(address of the pattern, address of its mapping) of all copies."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            first, last, access = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            begin, size = int(first, 16), int(last, 16) - int(first, 16)
            if access[:2] != "rw" or (access[3] == "s") != shared or size > 1 << 30:
                continue
            try:
                content = os.pread(memory.fileno(), size, begin)
            except (OSError, OverflowError):
                continue
            found = _bytes_in(content, pattern) if tolerance is None else _values_in(content, pattern, tolerance)
            for place in found:
                yield begin + place, begin


def _bytes_in(content, pattern):
    place = content.find(pattern)
    while place >= 0:
        yield place
        place = content.find(pattern, place + 1)


def _values_in(content, pattern, tolerance):
    values = np.frombuffer(content[: len(content) // 4 * 4], np.float32)
    with np.errstate(invalid="ignore"):
        starts = np.arange(values.size - WINDOW)
        for number, value in enumerate(pattern):
            starts = starts[np.abs(values[starts + number] - value) <= tolerance[number]]
    return (4 * starts).tolist()


def _flip_in_memory(pid, address, count, bit):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        word = bytearray(os.pread(memory.fileno(), count, address))
        word[bit // 8] ^= 1 << bit % 8
        os.pwrite(memory.fileno(), bytes(word), address)


if __name__ == "__main__":
    programs.main(check)
