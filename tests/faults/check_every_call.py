"""Kills rank 0 at every system call on files of its train directory, and makes each of these calls fail.

One training records the calls (tests/support/faulty_calls.cpp). Then the same training runs once for each combination
of a recorded call and a fault that is possible at this call. There are two scenarios: a new run, and a run that resumes
from the directory of a killed run. The quick form uses the calls of one checkpoint and some other calls.
"""

import concurrent.futures
import errno
import itertools
import math
import re
import shutil
from dataclasses import dataclass

import training
from training import TIMEOUT, Training

import programs
from processes import faulty
from programs import Result, checkpoint

STEPS, EVERY = 12, 4
WORKERS = 3  # number of runs at the same time; the runs mostly wait for the disk
NEVER = "the call did not occur"
WITHOUT = 0.05  # allowed share of cases in which the call does not occur, because threads run in another order
IO, KILLED, KILLED_BELOW_MPIRUN = 74, -9, 137
FSTATS_OF_OPENING = 2  # largest number of fstat calls on a log before its first entry

# These calls change a file or directory. All other calls only read, so the check does not kill the run at the other
# calls.
CHANGES = {"mkdir", "open", "openat", "close", "write", "pwrite", "fsync", "flock", "ftruncate", "truncate", "rename"}
CHANGES |= {"unlink", "unlinkat", "remove"}
WRITES = {"write", "pwrite"}
KILLS = {name: {"action": name, "times": 1} for name in ("kill-before", "kill-after", "cut")}
ERRORS = {"EIO": {"errno": errno.EIO, "times": 1}, "ENOSPC": {"errno": errno.ENOSPC, "times": 1}}
SHORT = {"short": {"action": "short", "times": 1}}
FULL = {"full from then on": {"errno": errno.ENOSPC}}
FAULTS = KILLS | ERRORS | SHORT | FULL


@dataclass(frozen=True)
class Call:
    """The n-th call of a kind on a file. `file` is a pattern: file names contain times and process ids."""

    name: str
    file: str
    number: int

    @property
    def is_of_writing(self):
        """Returns whether the call belongs to a checkpoint that is being written."""
        return self.file.endswith(".tmp")

    def __str__(self):
        return f"{self.name} {self.number} of {self.file or 'the directory'}"


@dataclass(frozen=True)
class Case:
    scenario: str
    fault: str
    call: Call

    @property
    def group(self):
        return self.scenario, self.fault, self.call.file or "the directory"

    @property
    def title(self):
        return f"{self.scenario}: {self.fault}: {self.call}"


def check(context):
    """every call"""
    data = context.small_set(200, 100)
    yield from _scenarios(context, data, 0)
    yield from _scenarios(context, data, 2)


def _scenarios(context, data, ranks):
    undisturbed = Training(
        context, data, STEPS, EVERY, "--batch-size", 10, "--summary-every", 3,
        "--checkpoint-failures", 2, ranks=ranks,
    )  # fmt: skip
    label = f"{ranks} ranks" if ranks else "a run"
    # The killed run leaves a temporary file. It also leaves logs of steps after its checkpoint.
    killed = context.directory("killed")
    at = faulty(context, "fsync", f"{killed}/model.ckpt-{2 * EVERY}.*", action="kill-before")
    context.finish(context.start(undisturbed.command(killed), at), TIMEOUT)
    for step in training.saved_steps(killed):
        if step > EVERY:  # true if another rank has saved this step
            checkpoint(killed, step).unlink()
    if training.saved_steps(killed) != [EVERY]:
        raise programs.ProgramFailed(f"{killed}: checkpoints of {training.saved_steps(killed)}")

    for scenario, template in ((label, None), (f"{label}, resumed", killed)):
        calls = _recorded(context, undisturbed, template)
        detail = f"{len(calls)} calls on {len({call.file for call in calls})} files"
        yield Result(f"every call: {scenario}, recorded", len(calls) > 50, detail)
        cases = [Case(scenario, fault, call) for call in calls for fault in _faults_of(call)]
        yield from _run(context, undisturbed, template, _chosen(cases, context.quick, ranks))


def _faults_of(call):
    """Returns the faults that are possible at a call."""
    names = list(KILLS if call.name in WRITES else {"kill-before", "kill-after"}) if call.name in CHANGES else []
    names += ["EIO", "ENOSPC", "short"] if call.name in WRITES else ["EIO"]
    return names + (["full from then on"] if call.name == "write" and call.number == 1 else [])


def _chosen(cases, quick, ranks):
    """Returns the cases to run. Runs with several ranks take longer, so only every fifth of these cases is returned."""
    if not quick:
        return sorted(cases[:: 5 if ranks else 1], key=lambda case: case.group)
    if ranks:
        chosen = cases[7 :: len(cases) // 2]
    else:
        is_whole = _opens_logs if "resumed" in cases[0].scenario else _of_second_checkpoint
        one = [case for case in cases if is_whole(case)]
        others = [case for case in cases if case not in one]
        chosen = one + others[5 :: len(others) // 8]
    return sorted(chosen, key=lambda case: case.group)


def _opens_logs(case):
    """Returns whether a resumed run fails at a call on its logs: a call that opens a log, or writes its first
    entries."""
    return case.fault == "EIO" and case.call.number < 3 and case.call.file.startswith(("metrics", "events"))


def _of_second_checkpoint(case):
    """Returns whether the call belongs to the second checkpoint: to its file, to its directory, or to the removal of
    the first old checkpoint."""
    call = case.call
    syncs_directory = not call.file and call.name == "fsync" and call.number == 2
    return f"model.ckpt-{2 * EVERY}" in call.file or call.name == "remove" or syncs_directory


def _prepared(run, template):
    if template:
        shutil.copytree(template, run)


def _recorded(context, undisturbed, template):
    """Runs the training without faults, and returns its calls on files of the train directory."""
    run = context.directory("recorded")
    log = context.directory("calls")
    _prepared(run, template)
    done = context.finish(context.start(undisturbed.command(run), faulty(context, "all", f"{run}*", log=log)), TIMEOUT)
    if done.code != 0:
        raise programs.ProgramFailed(done.explain())
    numbers, calls = {}, []
    for line in log.read_text().splitlines():
        name, path = line.split(" ", 1)
        file = re.sub(r"\.[0-9a-f]{16}\.tmp$", ".*.tmp", path.removeprefix(str(run)).removeprefix("/"))
        file = re.sub(r"^(events\.out\.tfevents)\..*", r"\1.*", file)
        numbers[name, file] = numbers.get((name, file), 0) + 1
        calls.append(Call(name, file, numbers[name, file]))
    return calls


def _run(context, undisturbed, template, cases):
    """Runs a group of cases. Yields one Result for the group, and one for each case that fails."""
    runs = [context.directory("case") for _ in cases]
    never = 0
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        judged = pool.map(lambda case, run: _judged(context, undisturbed, template, case, run), cases, runs)
        for group, members in itertools.groupby(zip(cases, judged), key=lambda member: member[0].group):
            verdicts = dict(members)
            failed = {case: wrong for case, wrong in verdicts.items() if wrong not in ("", NEVER)}
            for case, wrong in failed.items():
                yield Result(f"every call: {case.title}", False, wrong)
            never += sum(wrong == NEVER for wrong in verdicts.values())
            met = sum(wrong == "" for wrong in verdicts.values())
            yield Result(f"every call: {': '.join(group)}", not failed, f"{met} of {len(verdicts)} calls")
    title = f"every call: {cases[0].scenario}, calls that did not occur"
    yield Result(title, never <= len(cases) * WITHOUT, f"{never} of {len(cases)}")


def _judged(context, undisturbed, template, case, run):
    """Runs one case, and then the same command again. Returns what is wrong after the fault or after the second run;
    empty if nothing is wrong. Returns NEVER if the call did not occur."""
    try:
        wrong = _wrong(context, undisturbed, template, case, run)
    except (programs.ProgramFailed, OSError, KeyError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    if wrong in ("", NEVER):
        training.remove(run)
    return wrong


def _wrong(context, undisturbed, template, case, run):
    _prepared(run, template)
    log = run.with_suffix(".calls")
    path = f"{run}/{case.call.file}" if case.call.file else run
    fault = faulty(context, case.call.name, path, nth=case.call.number, log=log, **FAULTS[case.fault])
    done = context.finish(context.start(undisturbed.command(run), fault), TIMEOUT)
    met = log.read_text().splitlines() if log.exists() else []
    if len(met) < case.call.number:
        return (done.explain() if done.code else "") or undisturbed.difference(run) or NEVER

    wrong = undisturbed.damage(run)
    if case.fault in KILLS:
        wrong = wrong or _wrong_kill(undisturbed, template, case, run, done)
        lost = 1 if undisturbed.ranks else 0  # another rank may save a step that rank 0 has not logged
    else:
        wrong = wrong or _wrong_failure(case, done)
        lost = _lost_entries(case, done)
        if not wrong and done.code == 0:
            wrong = undisturbed.difference(run, lost=lost)
    if wrong:
        return wrong
    again = context.run_command(undisturbed.command(run), TIMEOUT)
    wrong = f"the same command again: {again.explain()}" if again.code or again.lines else ""
    resumed_at = training.resumed_at(again)  # if rank 0 was killed, this may be any step: another rank has saved it
    wrong = wrong or undisturbed.difference(run, [resumed_at], lost=lost)
    return f"resumed at {resumed_at}: {wrong}" if wrong else ""


def _wrong_kill(undisturbed, template, case, run, done):
    was_killed = done.code == (KILLED_BELOW_MPIRUN if undisturbed.ranks else KILLED)
    if not was_killed:
        return f"not killed: {done.explain()}"
    # All calls on a checkpoint come after the calls on the previous checkpoint.
    step = re.match(r"model\.ckpt-(\d+)\.", case.call.file)
    is_published = case.call.name == "rename" and case.fault == "kill-after"
    least = int(step[1]) - (0 if is_published else EVERY) if step else 0
    least = max(least, EVERY if template else 0)
    saved = training.saved_steps(run)
    return "" if max(saved, default=0) >= least else f"checkpoints of {saved}, none of {least}"


def _wrong_failure(case, done):
    """Returns what is wrong with the end of a run with a failing or short call. The run must either end with 0 and
    report what it lost, or end with 74."""
    lines = done.lines
    warnings = [line for line in lines if line.startswith("warning: ")]
    if case.fault == "short":
        return "" if done.code == 0 and not lines else done.explain()
    if done.code == IO:
        return "" if len(warnings) == len(lines) - 1 and "mnist_train: rank 0" in lines[-1] else done.explain()
    if done.code != 0 or warnings != lines:
        return done.explain()
    is_told = case.call.is_of_writing and case.call.name in ("open", "write", "fsync", "rename", "close")
    return "it reports nothing" if is_told and not lines else ""


def _lost_entries(case, done):
    """Returns how many entries each log may lack: one entry if one call failed, any number if the log could not be
    opened."""
    if not any("continuing without it" in line for line in done.lines):
        return 0
    appends = case.call.name == "write" or (case.call.name == "fstat" and case.call.number > FSTATS_OF_OPENING)
    return 1 if appends and FAULTS[case.fault].get("times") else math.inf


if __name__ == "__main__":
    programs.main(check)
