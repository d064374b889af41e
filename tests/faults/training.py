"""A short training for the injection of faults, and checks of its train directory during and after the run."""

import json
import math
import pathlib
import re
import shutil
import sys
import time

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "acceptance"))

import events
import programs
from programs import SCALED, checkpoint, load

TIMEOUT = 120  # seconds; a run takes less, even on a loaded machine
BEST = "best.ckpt.h5"
# The tags of an evaluation.
EVALUATION = ("precision @ 1", "eval_loss", "top_5", "balanced_accuracy", "macro_f1", "calibration_error")


class Training:
    """mnist_train with checkpoints, evaluations and summaries, and the files of an undisturbed run.

    Every step is logged, and evaluations happen at checkpoints. So a run that is killed and resumes logs the same lines
    as an undisturbed run.
    """

    def __init__(self, context, data, steps, every, *options, keep=2, ranks=0):
        self.context, self.steps, self.every, self.keep, self.ranks = context, steps, every, keep, ranks
        self._options = (
            "--data", data / "train-*", "--eval-data", data / "test-*", "--device", "cpu", "--threads", 1, *SCALED,
            "--max-steps", steps, "--checkpoint-every", every, "--eval-every", every, "--log-every", 1, *options,
        )  # fmt: skip
        self.directory = context.directory("undisturbed")
        began = time.monotonic()
        done = context.run_command(self.command(self.directory, keep=0), TIMEOUT)
        self.seconds = time.monotonic() - began
        if done.code != 0 or done.lines:
            raise programs.ProgramFailed(done.explain())
        self._states = {step: _bytes(checkpoint(self.directory, step)) for step in range(every, steps + 1, every)}
        self._losses = programs.losses(self.directory)
        self._evaluations = _evaluations(self.directory)
        self._shown = _shown(self.directory)

    def command(self, run, keep=None):
        own = ("--train-dir", run, "--keep-checkpoints", self.keep if keep is None else keep)
        return self.context.command("mnist_train", *self._options, *own, ranks=self.ranks)

    def damage(self, run):
        """Returns what is wrong with the files that have names of checkpoints; empty if nothing is wrong. Each of these
        files must be complete at all times."""
        for path in whole_names(run):
            try:
                arrays, step = _bytes(path), _attributes(path)["global_step"]
            except OSError as error:
                return f"{path.name} does not load: {error}"
            if arrays != self._states.get(step, arrays):
                return f"{path.name} is not the undisturbed run's"
        return ""

    def difference(self, run, resumed_at=(), lost=0):
        """Compares the directory of a run that has ended with the directory of the undisturbed run. Returns the
        difference. At a step in `resumed_at`, there may be one more evaluation. Each log may lack `lost` entries,
        because writes were made to fail."""
        last = checkpoint(run, self.steps)
        left = [path.name for path in run.iterdir() if path.name.endswith(".tmp") or path.name == ".heartbeat"]
        if left or not last.exists():
            return f"left {', '.join(left)}" if left else f"{last.name} does not exist"
        if _bytes(last) != self._states[self.steps]:
            return f"{last.name} differs: {programs.same_bits(checkpoint(self.directory, self.steps), last)}"
        wrong = self.damage(run) or self._wrong_metrics(run, resumed_at, lost)
        wrong = wrong or self._wrong_events(run, resumed_at, lost)
        return wrong or ("" if lost else _wrong_best(run))

    def _wrong_metrics(self, run, resumed_at, lost):
        try:
            lines = programs.metrics(run)
        except (OSError, ValueError) as error:
            return f"metrics.jsonl: {error}" if math.isfinite(lost) else ""
        # The line of an evaluation comes before the line of the step with the same number.
        order = [(line["step"], "loss" in line) for line in lines]
        if order != sorted(set(order)):
            return f"metrics.jsonl has lines twice or out of order: {order}"
        losses, found = programs.losses(run), _evaluations(run)
        wrong = [step for step, loss in losses.items() if self._losses.get(step) != loss]
        wrong += [step for step, value in found.items() if self._evaluations.get(step, value) != value]
        if wrong:
            return f"metrics.jsonl differs at steps {wrong}"
        missing = (self._losses.keys() - losses.keys()) | (self._evaluations.keys() - found.keys())
        more = found.keys() - self._evaluations.keys() - set(resumed_at)
        if more or len(missing) > lost:
            return f"metrics.jsonl lacks {sorted(missing)}, has evaluations of {sorted(more)}"
        return ""

    def _wrong_events(self, run, resumed_at, lost):
        shown = _shown(run)
        for tag, expected in self._shown.items():
            found = shown.get(tag, [])
            steps = [step for step, _ in found]
            if steps != sorted(set(steps)):
                return f"TensorBoard shows {tag} twice or out of order: {steps}"
            more = [item for item in found if item not in expected]
            if tag in EVALUATION:
                more = [item for item in more if item[0] not in resumed_at]
            missing = [item for item in expected if item not in found]
            if more or len(missing) > lost:
                return f"TensorBoard shows {tag} with {more} and without {missing}"
        return ""


def whole_names(run):
    """Returns the files with names that only complete checkpoints may have."""
    return [path for path in run.glob("*.h5")] if run.exists() else []


def remove(run):
    shutil.rmtree(run, ignore_errors=True)


def saved_steps(run):
    """Returns the steps of the checkpoints from which a run can resume."""
    return sorted(int(path.name.split("-")[1].split(".")[0]) for path in run.glob("model.ckpt-*.h5"))


def resumed_at(done):
    """Returns the step at which a run reports that it resumes; None if the run reports no such step, because it begins
    at step 0."""
    found = re.search(r"^resuming from \S+ at step (\d+)", done.output, re.MULTILINE)
    return int(found[1]) if found else None


def _bytes(path):
    return {name: array.tobytes() for name, array in load(path).items()}


def _attributes(path):
    with h5py.File(path, "r") as file:
        return {"global_step": int(file.attrs["global_step"]), "options": json.loads(file.attrs["options"])}


def _evaluations(run):
    return {line["step"]: line["eval_correct"] for line in programs.metrics(run) if "eval_correct" in line}


def _shown(run):
    """Returns {tag: [(step, value)]} as TensorBoard shows them. Omits the contents of histograms, and values that
    differ between runs: the speed, and the options of each start."""

    def plain(tag, value):
        return value if isinstance(value, float) and tag != "examples_per_second" else None

    shown = events.shown(run)
    shown.pop("options", None)
    return {tag: [(step, plain(tag, value)) for step, value in items] for tag, items in shown.items()}


def _wrong_best(run):
    """Returns what is wrong with the best checkpoint, which must belong to the first evaluation with the highest
    accuracy; empty if nothing is wrong."""
    found = _evaluations(run)
    highest = max(found.values())
    attributes = _attributes(run / BEST)
    kept = attributes["options"]["evaluation correct"], attributes["global_step"]
    expected = highest, min(step for step, correct in found.items() if correct == highest)
    return "" if kept == expected else f"{BEST} has {kept[0]} right at step {kept[1]}, not {expected}"
