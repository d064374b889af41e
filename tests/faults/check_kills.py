"""A rank is killed at a random moment of a training. The other ranks save the last completed step, and no step is lost.

Each case has one train directory. Its command is started again and again, and one rank of each start is killed, until
all kills of the case are made. Then the command runs until the training is complete. The result must equal the result
of an undisturbed run bit for bit. With the same --seed, the same ranks are killed at the same steps, but at other
moments within the step.

mpirun kills the other ranks after some seconds, and it waits for this time even if the other ranks have already ended.
So the check kills mpirun as soon as the other ranks have ended.
"""

import concurrent.futures
import random
import re
import shutil
import signal
import time
from dataclasses import dataclass

import training
from hosts import TwoHosts
from training import TIMEOUT

import programs
from processes import has_ended, rank_processes
from programs import SCALED, Result, checkpoint, same_bits

WORKERS = 2  # number of cases at the same time; the cases mostly wait for mpirun
KILL_SECONDS = 10  # seconds that mpirun waits before TERM, and again before KILL
KILL_SECONDS_ON_HOSTS = 4  # KILL_SECONDS for a run on two hosts


@dataclass(frozen=True)
class Case:
    name: str
    program: str
    options: tuple
    steps: int
    kills: int  # number of kills in the quick form


CASES = (
    # The batches are small, so that most of a step is the update.
    Case("mnist", "mnist_train", (*SCALED, "--batch-size", 1, "--optimizer", "momentum"), 1500, 5),
    Case("mnist, summaries", "mnist_train", (*SCALED, "--batch-size", 1, "--optimizer", "adamw", "--summary-every", 2), 500, 3),
    Case("mnist, lars", "mnist_train", (*SCALED, "--batch-size", 4, "--optimizer", "lars"), 900, 2),
    Case("cifar10", "cifar10_train", ("--batch-size", 2), 120, 2),
    Case("resnet9", "cifar10_train", ("--model", "resnet9", "--global-batch", 8, "--micro-batch", 2,
         "--optimizer", "nesterov", "--lookahead-every", 3), 30, 2),
    Case("pictures", "image_train", ("--model", "resnet18", "--classes", 5, "--image-size", 32, "--data", "synthetic",
         "--global-batch", 8, "--micro-batch", 2), 40, 2),
)  # fmt: skip


ON_TWO_HOSTS = Case("mnist on two hosts", "mnist_train", (*SCALED, "--batch-size", 4, "--optimizer", "momentum"), 300, 2)


def declare(parser):
    parser.add_argument("--kills", type=int, default=0, help="number of killed ranks (default: those of ctest)")
    parser.add_argument("--hosts", action="store_true", help="also on two hosts (as root)")
    parser.add_argument("--seed", type=int, default=1)


def check(context):
    """killed ranks"""
    options = context.options
    quick = sum(case.kills for case in CASES)
    counts = (2, 4) if options.kills else (2,)  # numbers of ranks
    repeats = max(1, round(options.kills / quick / len(counts)))
    chains = [
        Chain(context, case, ranks, number, options.seed)
        for case in CASES
        for ranks in counts
        for number in range(repeats)
    ]
    # Make the datasets now: otherwise two chains would make them at the same time.
    context.small_set(200), context.small_cifar10_set(12)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(Chain.result, chains)
    yield _own_error(context)
    if options.hosts:
        of_hosts = [Chain(context, ON_TWO_HOSTS, ranks, number, options.seed) for ranks in (2, 4) for number in range(repeats)]
        for chain in of_hosts:
            yield chain.result_on_two_hosts()
        chains += of_hosts
    kills, saved = sum(len(chain.kills) for chain in chains), sum(chain.saved for chain in chains)
    slowest = max((kill.seconds for chain in chains for kill in chain.kills), default=0.0)
    detail = f"{saved} of {kills}, at most {slowest:.2f} s after the death"
    yield Result("killed ranks: saved by the others", saved == kills, detail)


def _own_error(context):
    """A rank that reads a damaged record must save the last completed step. After the record is repaired, the same
    command must end with the same result as an undisturbed run. The checkpoint contains the losses of the last step,
    because rank 0 may not have logged them."""
    data, run, whole = context.directory("data"), context.directory("killed"), context.directory("whole")
    shutil.copytree(context.small_set(10000), data)
    file = next(data.glob("train-*"))
    good = file.read_bytes()
    options = (*SCALED, "--data", file, "--device", "cpu", "--threads", 1, "--batch-size", 4, "--shuffle", "false")
    options += ("--cache", "none", "--max-steps", 240, "--log-every", 1, "--summary-every", 0)
    context.run("mnist_train", *options, "--train-dir", whole, ranks=2)
    place = len(good) * 1501 // 10000 + 100  # in a record that the start does not read
    file.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
    done = context.run("mnist_train", *options, "--train-dir", run, ranks=2, expect=65)
    file.write_bytes(good)
    saved, logged = training.saved_steps(run), len(programs.losses(run))
    wrong = "" if saved == [logged] and f"; saved step {logged} in " in done.errors else f"{saved}: {done.explain()}"
    if not wrong:
        log = run / "metrics.jsonl"
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
        context.run("mnist_train", *options, "--train-dir", run, ranks=2)
        wrong = same_bits(checkpoint(run, 240), checkpoint(whole, 240))
        wrong = wrong or ("" if programs.losses(run) == programs.losses(whole) else "metrics.jsonl has other losses")
    return Result("a rank that meets a damaged record saves", not wrong, wrong or f"after {logged} steps")


@dataclass
class Kill:
    """The rank that was killed, the number of steps that were logged at this time, and the seconds from the kill until
    the other ranks had saved."""

    rank: int
    logged: int
    seconds: float = 0.0


class Chain:
    """All starts of a case in one train directory."""

    def __init__(self, context, case, ranks, number, seed):
        self._context, self._case, self._ranks, self._hosts = context, case, ranks, None
        self._chance = random.Random(f"{seed} {case.name} {ranks} {number}")
        self._name = f"{case.name}, {ranks} ranks, chain {number}"
        self._run, self._whole = context.directory("killed"), context.directory("whole")
        self._error_file = context.directory("errors")
        self._error_file.write_text("")
        self.kills, self.saved = [], 0

    def result_on_two_hosts(self):
        with TwoHosts() as self._hosts:
            return self.result()

    def result(self):
        try:
            wrong = self._wrong()
        except (programs.ProgramFailed, OSError, KeyError, ValueError) as error:
            wrong = f"{type(error).__name__}: {error}"
        detail = ", ".join(f"rank {kill.rank} after {kill.logged} steps" for kill in self.kills)
        if not wrong:
            training.remove(self._run)
            training.remove(self._whole)
        return Result(self._name, not wrong, f"{wrong} ({detail}; {self._run})" if wrong else detail)

    def _environment(self):
        # A killed mpirun leaves files of its shared memory. They are removed with the working directory.
        return {
            "OMPI_MCA_btl_vader_backing_directory": str(self._context.work),
            "OMPI_MCA_odls_base_sigkill_timeout": str(KILL_SECONDS),
            "CARILLON_ERROR_FILE": str(self._error_file),
        }

    def _command(self, run):
        case = self._case
        data = () if "--data" in case.options else ("--data", self._data() / "train-*")
        own = ("--train-dir", run, "--max-steps", case.steps, "--device", "cpu", "--threads", 1, "--log-every", 1)
        own += ("--checkpoint-every", 0, "--checkpoint-every-seconds", 0)
        words = (case.program, *data, *case.options, *own)
        if not self._hosts:
            return self._context.command(*words, ranks=self._ranks)
        launcher = self._hosts.launcher(self._ranks, KILL_SECONDS_ON_HOSTS)
        return [*launcher, "-x", "CARILLON_ERROR_FILE", *self._context.command(*words)]

    def _data(self):
        return self._context.small_set(200) if self._case.program == "mnist_train" else self._context.small_cifar10_set(12)

    def _wrong(self):
        done = self._undisturbed(self._whole)
        if done.code:
            return done.explain()
        steps = sorted(self._chance.sample(range(1, self._case.steps - 2), self._case.kills))
        for step in steps:
            wrong = self._killed_at(step)
            if wrong:
                return wrong
        done = self._undisturbed(self._run)
        if done.code:
            return done.explain()
        last = self._case.steps
        return same_bits(checkpoint(self._run, last), checkpoint(self._whole, last)) or self._wrong_losses()

    def _undisturbed(self, run):
        return self._context.finish(self._context.start(self._command(run), self._environment()), TIMEOUT)

    def _wrong_losses(self):
        found, expected = programs.losses(self._run), programs.losses(self._whole)
        differ = [step for step, loss in found.items() if expected.get(step) != loss]
        missing = len(expected) - len(found)
        return f"metrics.jsonl lacks {missing} steps, and {differ} differ" if differ or missing else ""

    def _killed_at(self, step):
        """Kills a rank when `step` steps are logged. Returns what is wrong after the kill; empty if nothing is
        wrong."""
        step = max(step, self._logged() + 1)  # the previous run may have logged more steps
        process = self._context.start(self._command(self._run), self._environment())
        deadline = time.monotonic() + TIMEOUT
        while self._logged() < step and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(self._chance.uniform(0.0, 0.01))
        rank = self._chance.randrange(self._ranks)
        found = rank_processes(process)
        if rank not in found:
            done = self._context.finish(process, TIMEOUT)
            has_ended_before = done.code == 0 and step > self._case.steps // 2
            return "" if has_ended_before else f"rank {rank} does not run: {done.explain()}"
        programs.signal_process(found[rank], signal.SIGKILL)
        killed = time.monotonic()
        before = training.saved_steps(self._run)
        kill = Kill(rank, self._logged())
        self.kills.append(kill)
        while training.saved_steps(self._run) == before and process.poll() is None:
            time.sleep(0.002)
        kill.seconds = time.monotonic() - killed
        while any(not has_ended(pid) for pid in found.values()) and process.poll() is None:
            time.sleep(0.002)
        if not self._hosts:
            process.kill()
        return self._wrong_end(self._context.finish(process, TIMEOUT), kill)

    def _logged(self):
        """Returns how many steps the log contains."""
        log = self._run / "metrics.jsonl"
        return log.read_bytes().count(b'"loss"') if log.exists() else 0

    def _wrong_end(self, done, kill):
        saved, logged = training.saved_steps(self._run), self._logged()
        said = self._error_file.read_text().splitlines()
        self._error_file.write_text("")
        if not saved or saved[-1] < logged:
            return f"{logged} steps were logged, and {saved} saved: {' | '.join(said)}: {done.explain()}"
        self.saved += 1
        if self._hosts:
            # A rank on the other host cannot know which rank was killed; it knows only that the launcher ends the run.
            expected = rf"the process of rank {kill.rank} has ended in |(waited|was in) .* while the launcher ended the run"
            is_named = any(re.search(expected, line) for line in said)
            return "" if is_named else f"expected a line: {' | '.join(said)} | {done.explain()}"
        expected = rf"the process of rank {kill.rank} has ended in \w+ of step \d+; saved step {saved[-1]} in "
        return "" if len(said) == 1 and re.search(expected, said[0]) else f"expected one line: {' | '.join(said)}"


if __name__ == "__main__":
    programs.main(check, declare=declare)
