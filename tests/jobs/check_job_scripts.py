"""Tests of the scripts in jobs/, with stubs of Slurm's and Carillon's programs."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = ROOT / "jobs"
sys.path.insert(0, str(ROOT / "tests/acceptance"))

from processes import TIMEOUT, catches

# Logs its signals; ends at a TERM.
SIGNAL_LOGGER = """#!/usr/bin/env bash
trap 'echo USR1 >>"$LOG"' USR1
trap 'echo TERM >>"$LOG"; exit 75' TERM
echo ready >>"$LOG"
while :; do sleep 0.02; done
"""
SRUN = """#!/usr/bin/env bash
exit "$SRUN_CODE"
"""
SQUEUE = """#!/usr/bin/env bash
if [[ $* == *%T* ]]; then echo "$JOB_STATE"; else echo 1:00:00; fi
"""
SCONTROL = """#!/usr/bin/env bash
if [[ $1 == requeue ]]; then echo "$2" >>"$LOG"; fi
"""


def heed_signals():
    """A shell cannot trap a signal that its parent ignores, as nohup does."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class ScriptTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = pathlib.Path(directory.name)
        self.log = self.work / "log"
        self.log.touch()

    def stub(self, name, text):
        path = self.work / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def logged(self):
        return self.log.read_text().split()

    def wait_for(self, condition, what):
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.005)


class ForwardSignalsTest(ScriptTest):
    """jobs/forward_signals.sh"""

    def start(self):
        """A shell that runs the logger with forward_signals. Returns when both handle signals."""
        logger = self.stub("logger", SIGNAL_LOGGER)
        script = f'source "{JOBS}/forward_signals.sh"; forward_signals "{logger}"'
        shell = subprocess.Popen(
            ["bash", "-c", script], env=os.environ | {"LOG": str(self.log)}, start_new_session=True, preexec_fn=heed_signals
        )
        self.addCleanup(self.kill, shell)
        handled = (signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
        self.wait_for(lambda: all(catches(shell.pid, number) for number in handled), "the shell handles signals")
        self.wait_for(lambda: self.logged() == ["ready"], "the logger runs")
        return shell

    def kill(self, shell):
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shell.wait()

    def forwarded(self, *sent):
        """The signals that the logger gets, and the shell's exit code; None if the shell still runs. Each signal is sent
        after the previous one has arrived."""
        shell = self.start()
        for count, number in enumerate(sent, start=1):
            shell.send_signal(number)
            self.wait_for(lambda: len(self.logged()) > count, f"signal {count} of {sent} arrives")
        got = self.logged()[1:]
        return got, shell.wait(TIMEOUT) if "TERM" in got else None

    def test_first_signal_of_any_kind_becomes_usr1(self):
        for first in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            with self.subTest(first=first.name):
                self.log.write_text("")
                self.assertEqual(self.forwarded(first), (["USR1"], None))

    def test_second_term_or_int_stays_a_term(self):
        for first in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            for second in (signal.SIGTERM, signal.SIGINT):
                with self.subTest(first=first.name, second=second.name):
                    self.log.write_text("")
                    self.assertEqual(self.forwarded(first, second), (["USR1", "TERM"], 75))

    def test_later_usr1_or_hup_stays_a_usr1(self):
        signals = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM)
        self.assertEqual(self.forwarded(*signals), (["USR1", "USR1", "USR1", "TERM"], 75))


class RepeatErrorTest(ScriptTest):
    """What jobs/forward_signals.sh prints after the end of mpirun."""

    def errors(self, code, line):
        """The lines on stderr if the program reports `line` and ends with `code`, and mpirun prints its own lines then."""
        keep = f'echo "{line}" | tee -a "$CARILLON_ERROR_FILE" >&2\n' if line else ""
        self.stub("mpirun", f"#!/usr/bin/env bash\n{keep}echo 'Primary job terminated normally' >&2\nexit {code}\n")
        script = f'source "{JOBS}/forward_signals.sh"; forward_signals mpirun'
        environment = os.environ | {"PATH": f"{self.work}:{os.environ['PATH']}", "TMPDIR": str(self.work)}
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, code)
        self.assertEqual(list(self.work.glob("tmp.*")), [], "the temporary file is removed")
        return done.stderr.splitlines()

    def test_error_line_comes_last(self):
        line = "mnist_train: rank 0 on vm: --data: no file"
        self.assertEqual(self.errors(66, line), [line, "Primary job terminated normally", line])

    def test_failure_without_an_error_line_adds_nothing(self):
        self.assertEqual(self.errors(137, ""), ["Primary job terminated normally"])

    def test_stopped_run_says_how_to_resume(self):
        last = "stopped after a checkpoint: repeat the command to resume"
        self.assertEqual(self.errors(75, ""), ["Primary job terminated normally", last])


class SlurmTrainTest(ScriptTest):
    """jobs/slurm_train.sh"""

    KILLED_BY_USR1 = 128 + signal.SIGUSR1

    def run_script(self, code, program="mnist_train", state="RUNNING", seconds=0, **variables):
        """(exit code, requeued jobs) if srun ends with `code` after the script has run for `seconds`."""
        self.log.write_text("")
        for name, text in (("srun", SRUN), ("squeue", SQUEUE), ("scontrol", SCONTROL), (program, SRUN)):
            self.stub(name, text)
        # A shell counts SECONDS from the value that it inherits.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        environment |= {"PATH": f"{self.work}:{environment['PATH']}", "LOG": str(self.log), "SLURM_JOB_ID": "17"}
        environment |= {"SRUN_CODE": str(code), "JOB_STATE": state, "SECONDS": str(seconds)} | variables
        command = [JOBS / "slurm_train.sh", self.work / program, "--max-steps", "5"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        return done.returncode, self.logged()

    def test_stopped_training_is_requeued(self):
        self.assertEqual(self.run_script(75), (75, ["17"]))

    def test_array_task_is_requeued_by_its_array_number(self):
        self.assertEqual(self.run_script(75, SLURM_ARRAY_JOB_ID="20", SLURM_ARRAY_TASK_ID="3"), (75, ["20_3"]))

    def test_cancelled_job_is_not_requeued(self):
        self.assertEqual(self.run_script(75, state="COMPLETING"), (75, []))

    def test_training_killed_by_usr1_at_its_start_is_requeued(self):
        self.assertEqual(self.run_script(self.KILLED_BY_USR1), (75, ["17"]))

    def test_training_killed_by_usr1_after_a_minute_is_not_requeued(self):
        self.assertEqual(self.run_script(self.KILLED_BY_USR1, seconds=60), (self.KILLED_BY_USR1, []))

    def test_other_program_killed_by_usr1_is_not_requeued(self):
        self.assertEqual(self.run_script(self.KILLED_BY_USR1, program="mnist_eval"), (self.KILLED_BY_USR1, []))

    def test_other_exit_codes_are_returned(self):
        for code in (0, 1, 70, 128 + signal.SIGTERM):
            with self.subTest(code=code):
                self.assertEqual(self.run_script(code), (code, []))


if __name__ == "__main__":
    unittest.main()
