"""Sends signals at random moments to a rank, to mpirun or to all ranks. Repeats the same command until it ends with 0.

Each case has one train directory, one or more faults, and repeated starts of the same command. The result must equal
the result of an undisturbed run bit for bit. The same --seed repeats the same faults at the same steps, but at other
moments within the step.

mpirun's reactions to signals: it forwards TERM and INT and kills its ranks a second or two later. It forwards USR1, but
may lose it while it starts the ranks. If mpirun is killed, its ranks end within seconds. Open MPI 4.1's mpirun can hang
at its own end when no rank is left (PMIx_server_finalize). The check ends an mpirun that hangs, and counts it.
"""

import concurrent.futures
import itertools
import pathlib
import random
import re
import signal
import time
from dataclasses import dataclass

import training
from training import TIMEOUT, Training

import programs
from processes import rank_processes
from programs import Result

STEPS, EVERY = 240, 30
STARTED = 0.2  # share of the faults that come in the first START_SECONDS, before the first step
START_SECONDS = 1.2
END_SECONDS = 0.5  # the latest faults come this long after the last step
WAIT_SECONDS = 60  # longest wait for the moment of a fault; then the fault is omitted
ALONE_SECONDS = 20  # longest time in which mpirun runs without ranks, before they start or after they end
LOST, STOPPED = 71, 75
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGSTOP)
ENDING = {signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT}
STOPPING = ENDING - {signal.SIGKILL}
GONE_SECONDS = 30  # longest time in which ranks run after mpirun has ended; usually two seconds
WORKERS = 2  # number of cases at the same time; the cases mostly wait for mpirun
MARK = "FAULTS_CASE"  # environment variable that all processes of a case inherit


@dataclass(frozen=True)
class Fault:
    number: signal.Signals
    target: object  # number of a rank, "mpirun" or "all ranks"
    moment: float  # 0: start; STARTED: first step; 0.9: last step; 1: END_SECONDS after it
    pause: float  # seconds after which a stopped process continues

    def __str__(self):
        target = f"rank {self.target}" if isinstance(self.target, int) else self.target
        pause = f" for {self.pause:.1f} s" if self.number == signal.SIGSTOP else ""
        return f"{self.number.name[3:]} to {target} at {self.moment:.2f}{pause}"


@dataclass(frozen=True)
class Case:
    number: int
    ranks: int
    starts: tuple  # (faults of a start, ...) for each start

    @property
    def faults(self):
        return sum(map(len, self.starts))

    def __str__(self):
        starts = "; again: ".join(" and ".join(map(str, faults)) for faults in self.starts)
        return f"random: {self.number}: {self.ranks} ranks: {starts}"


def declare(parser):
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults (default: %(default)s)")
    parser.add_argument("--faults", type=int, help="number of cases (default: 200; with --quick 6)")
    parser.add_argument("--case", type=int, help="run this case only")


def check(context):
    """random faults"""
    options = context.options
    cases = _drawn(options.seed, options.faults or (6 if context.quick else 200))
    cases = [case for case in cases if options.case in (None, case.number)]
    data = context.small_set(200, 100)
    undisturbed = {}
    for ranks in sorted({case.ranks for case in cases}):
        options_of_run = ("--batch-size", 20, "--summary-every", 20)
        undisturbed[ranks] = Training(context, data, STEPS, EVERY, *options_of_run, ranks=ranks)
    seconds = ", ".join(f"{run.seconds:.1f} s at {ranks} ranks" for ranks, run in undisturbed.items())
    yield Result(f"random: seed {options.seed}, undisturbed", True, seconds)

    disturbed = [Disturbed(undisturbed[case.ranks], case, context.directory("random")) for case in cases]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(Disturbed.result, disturbed)
    drawn, met = sum(case.faults for case in cases), sum(one.met for one in disturbed)
    hung = sum(one.hung for one in disturbed)
    yield Result("random: faults that reached a process", met >= drawn // 2, f"{met} of {drawn}")
    yield Result("random: mpirun hung after the end of all ranks", hung <= 1 + drawn // 50, f"{hung}")


def _drawn(seed, count):
    """Draws cases with `count` faults in total. The signals come in turn, so that even a few cases contain every
    signal."""
    cases, left = [], count
    for number in itertools.count():
        if left <= 0:
            return cases
        chance = random.Random(f"{seed} {number}")
        ranks = chance.choice((2, 4))
        first = [_fault(chance, ranks, SIGNALS[number % len(SIGNALS)])]
        first += [_fault(chance, ranks)] if chance.random() < 0.3 else []
        starts = [tuple(sorted(first, key=lambda fault: fault.moment)[:left])]
        left -= len(starts[0])
        if left and chance.random() < 0.3:
            starts.append((_fault(chance, ranks),))
            left -= 1
        cases.append(Case(number, ranks, tuple(starts)))


def _fault(chance, ranks, number=None):
    target = chance.choice((chance.randrange(ranks), "mpirun", "all ranks"))
    return Fault(number or chance.choice(SIGNALS), target, chance.random(), chance.uniform(0.1, 1.0))


class Disturbed:
    """All starts of a case, and their results."""

    def __init__(self, undisturbed, case, run):
        self._undisturbed, self._context, self._case, self._run = undisturbed, undisturbed.context, case, run
        self._codes, self._resumed = [], []
        self._starts = set()  # steps at which starts may resume; a run with a killed mpirun may not print this step
        self.met = self.hung = 0  # how many faults reached a process, and how many mpiruns hung
        self._kills = 0  # starts with a KILL: the other ranks may save a step that rank 0 has not logged

    def result(self):
        try:
            wrong = self._wrong()
        except (programs.ProgramFailed, OSError, KeyError, ValueError) as error:
            wrong = f"{type(error).__name__}: {error}"
        detail = f"exit codes {self._codes}, resumed at {self._resumed}"
        if not wrong:
            training.remove(self._run)
        detail += ", mpirun hung" if self.hung else ""
        return Result(str(self._case), not wrong, f"{wrong} ({detail}; {self._run})" if wrong else detail)

    def _wrong(self):
        for faults in (*self._case.starts, (), ()):
            before = training.saved_steps(self._run)
            self._starts.update(before[-1:])
            done, sent = self._start(faults)
            self._codes.append(done.code)
            self._kills += signal.SIGKILL in sent
            self._resumed.append(training.resumed_at(done))
            wrong = self._orphans()  # processes that still run would write to the directory
            expected = before[-1] if before else None
            # If a signal ends the run before it reads the directory, the run reports no step.
            if self._resumed[-1] != expected and (self._resumed[-1] or "step 0," in done.output or not sent):
                wrong = wrong or f"it resumed from {self._resumed[-1]}, but {before} were saved"
            wrong = wrong or self._undisturbed.damage(self._run) or self._wrong_end(done, sent)
            if wrong:
                return wrong
            if done.code == 0:
                return self._undisturbed.difference(self._run, self._starts, self._kills)
        return "it did not end with 0"

    def _start(self, faults):
        """Runs with `faults`. Returns the finished run, and the signals that were sent."""
        # A killed mpirun leaves files of its shared memory. They are removed with the working directory.
        memory = {"OMPI_MCA_btl_vader_backing_directory": str(self._context.work)}
        process = self._context.start(self._undisturbed.command(self._run), {MARK: self._run.name} | memory)
        began, sent = time.monotonic(), set()
        for fault in faults:
            self._wait_for(process, began, fault.moment)
            reached = self._reached(process, fault.target)
            self._send(reached, fault.number)
            if fault.number == signal.SIGSTOP and reached:
                time.sleep(fault.pause)
                self._send(reached, signal.SIGCONT)
            if reached:
                sent.add(fault.number)
                self.met += 1
        return self._finish(process), sent

    def _finish(self, process):
        alone_since = began = time.monotonic()
        while process.poll() is None and time.monotonic() < began + TIMEOUT:
            if rank_processes(process):
                alone_since = time.monotonic()
            elif time.monotonic() > alone_since + ALONE_SECONDS:
                self.hung += 1
                process.kill()
            time.sleep(0.05)
        return self._context.finish(process, TIMEOUT)

    def _wait_for(self, process, began, moment):
        if moment < STARTED:
            time.sleep(max(0.0, began + moment / STARTED * START_SECONDS - time.monotonic()))
            return
        # For moments from 0.9 to 1, waits for the last step, and sends the signal after this step.
        step = (moment - STARTED) / (0.9 - STARTED) * STEPS
        while process.poll() is None and self._logged() < min(step, STEPS) and time.monotonic() < began + WAIT_SECONDS:
            time.sleep(0.005)
        time.sleep(max(0.0, moment - 0.9) / 0.1 * END_SECONDS)

    def _logged(self):
        """Returns how many steps this run and the previous runs of the case have logged."""
        log = self._run / "metrics.jsonl"
        return log.read_bytes().count(b'"loss"') if log.exists() else 0

    def _reached(self, process, target):
        """Waits until mpirun has started the rank. Returns the processes that get the signal of the fault."""
        deadline = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            found = rank_processes(process)
            if target == "mpirun":
                return [process.pid]
            if target == "all ranks" and len(found) == self._case.ranks:
                return list(found.values())
            if target in found:
                return [found[target]]
            time.sleep(0.005)
        return []

    @staticmethod
    def _send(pids, number):
        for pid in pids:
            programs.signal_process(pid, number)

    def _wrong_end(self, done, sent):
        """Returns what is wrong with the exit code, the log or the checkpoints of a run that has ended; empty if
        nothing is wrong."""
        saved = training.saved_steps(self._run)
        logged = self._logged()
        if done.code == 0:
            return " | ".join(done.lines[:3])
        failed = done.code in range(64, STOPPED) and not (done.code == LOST and signal.SIGKILL in sent)
        if not sent & ENDING or failed or (done.code == STOPPED and not sent & STOPPING):
            return done.explain()
        said = re.search(r"^stopped by a signal at step (\d+)", done.output, re.MULTILINE)
        if done.code == STOPPED and not said:
            return f"exit code {done.code}, but it does not report the step at which it stopped"
        if said and (not saved or saved[-1] != int(said[1]) or not saved[-1] - self._kills <= logged <= saved[-1]):
            return f"stopped at step {said[1]}: checkpoints of {saved}, {logged} steps logged"
        # At most one checkpoint may be incomplete, because a checkpoint is written only when the previous checkpoint is
        # complete.
        due = (logged - 1) // EVERY * EVERY - EVERY
        return f"{logged} steps were logged, but {saved} saved" if due > 0 and (not saved or saved[-1] < due) else ""

    def _orphans(self):
        """Ends the processes of the case that still run, and reports them."""
        deadline = time.monotonic() + GONE_SECONDS
        while left := _marked(self._run.name):
            if time.monotonic() > deadline:
                self._send(left, signal.SIGKILL)
                return f"{len(left)} processes are left {GONE_SECONDS} s after mpirun ended"
            time.sleep(0.05)
        return ""


def _marked(name):
    """Returns the processes that have inherited the mark `name`."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={name}\0".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    programs.main(check, declare=declare)
