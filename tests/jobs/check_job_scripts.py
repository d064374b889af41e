"""Tests of the scripts in jobs/ and of `carillon launch`, with stubs of MPI's, Slurm's and Carillon's programs.

  check_job_scripts.py --bin build/bin
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = ROOT / "jobs"
sys.path.insert(0, str(ROOT / "tests/acceptance"))

import programs
from processes import TIMEOUT

# A program that logs the signals that it gets, and ends when it gets TERM.
SIGNAL_LOGGER = """#!/usr/bin/env bash
trap 'echo USR1 >>"$LOG"' USR1
trap 'echo TERM >>"$LOG"; exit 75' TERM
echo ready >>"$LOG"
while kill -0 "$PPID" 2>/dev/null; do sleep 0.02; done  # until the launcher is killed
"""
SRUN = """#!/usr/bin/env bash
exit "$SRUN_CODE"
"""
# Replaces mpirun, and starts one rank.
MPIRUN = """#!/usr/bin/env bash
shopt -s extglob
if [[ $1 == --version ]]; then
  echo "mpirun (Open MPI) ${MPIRUN_VERSION:-4.1.0}"
  exit
fi
echo "mpirun $*" >>"$LOG"
while [[ $1 != *_@(train|eval) ]]; do
  if [[ $1 == --hostfile ]]; then cat "$2" >>"$LOG"; fi
  shift
done
"$@"
"""
# The last lines of a stub like MPIRUN that runs a command when it gets USR1.
HANDLE_USR1 = """trap '%s' USR1
"$@" &
wait $!
wait $!
"""
SRUN_WITH_PROGRAM = """#!/usr/bin/env bash
while [[ $1 != */*_train ]]; do shift; done
"$@"
"""
# Replaces a training program. Logs its arguments, then runs the script BODY, in which `n` is the number of the start.
TRAIN = """#!/usr/bin/env bash
echo "start $*" >>"$LOG"
n=$(grep -c '^start' "$LOG")
# As a rank, which reports its error line and its exit code to the launcher on its host.
fails() {
  local line="mnist_train: rank 0 on n1: an error"
  if [[ -n ${ON_OTHER_HOST-} ]]; then echo "$line" >&2; else
    echo "$line" >>"$CARILLON_ERROR_FILE"
    echo "$1" >>"$CARILLON_CODE_FILE"
  fi
}
lost() { fails 71; exit 71; }
eval "$BODY"
"""
AGENT = """#!/usr/bin/env bash
[[ $1 != "$DOWN" ]]
"""
SQUEUE = """#!/usr/bin/env bash
if [[ $* == *%T* ]]; then
  echo "$JOB_STATE"
  # For the number of an array, squeue prints a line for each of its tasks.
  if [[ $* == *"--job ${SLURM_ARRAY_JOB_ID:-none} "* ]]; then echo "$JOB_STATE"; fi
else
  echo 1:00:00
fi
"""
SCONTROL = """#!/usr/bin/env bash
if [[ $1 == requeue ]]; then echo "$2" >>"$LOG"; fi
"""


def heed_signals():
    """If the parent ignores a signal, as nohup does, a shell cannot trap it. So restore the default."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class ScriptTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = pathlib.Path(directory.name)
        self.log = self.work / "log"
        self.log.touch()
        (self.work / "carillon").symlink_to(BIN / "carillon")

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


class LaunchTest(ScriptTest):
    """carillon launch"""

    def command(self, program):
        return [BIN / "carillon", "launch", "--name", "script", "--program", program, "--", program]

    def start(self):
        """Starts the launcher with the signal logger as its program. Returns when the logger handles signals."""
        logger = self.stub("logger", SIGNAL_LOGGER)
        self.log = pathlib.Path(tempfile.mkstemp(dir=self.work)[1])  # a former logger may still write to its own log
        launcher = subprocess.Popen(
            self.command(logger),
            env=os.environ | {"LOG": str(self.log)},
            stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=heed_signals,
        )
        self.addCleanup(self.kill, launcher)
        self.wait_for(lambda: self.logged() == ["ready"], "the logger runs")
        return launcher

    def kill(self, launcher):
        try:
            os.killpg(launcher.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        launcher.wait()
        launcher.stdout.read()  # until the logger has ended too: it must not write to a log that is removed
        launcher.stdout.close()

    def forwarded(self, *sent):
        """Sends the signals to a launcher. Returns the kinds of signals that the logger gets, and the exit code (None
        if the launcher still runs). Sends each signal after the previous one has arrived, and more than a second after
        the first one. Otherwise, the launcher would treat two signals as one: if a process group is stopped, it may get
        the same signal twice at once."""
        launcher = self.start()
        for count, number in enumerate(sent, start=1):
            launcher.send_signal(number)
            self.wait_for(lambda: len(self.logged()) > count, f"signal {count} of {sent} arrives")
            if count == 1 and len(sent) > 1:
                time.sleep(1.1)
        got = self.logged()[1:]
        return set(got), launcher.wait(TIMEOUT) if "TERM" in got else None

    def test_first_signal_of_any_kind_becomes_usr1(self):
        for first in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            with self.subTest(first=first.name):
                self.assertEqual(self.forwarded(first), ({"USR1"}, None))

    def test_second_term_or_int_stays_a_term(self):
        for first, second in ((signal.SIGTERM, signal.SIGINT), (signal.SIGUSR1, signal.SIGTERM)):
            with self.subTest(first=first.name, second=second.name):
                launcher = self.start()
                launcher.send_signal(first)
                self.wait_for(lambda: "USR1" in self.logged(), "the first signal arrives")
                time.sleep(1.1)
                launcher.send_signal(second)
                self.assertEqual(launcher.wait(TIMEOUT), 75)
                self.assertIn("TERM", self.logged())

    def test_mpirun_of_another_mpi_is_refused_in_one_line(self):
        for version in ("HYDRA build details:", "mpirun (Open MPI) 99.0.1"):
            with self.subTest(version=version):
                self.stub("mpirun", f"#!/usr/bin/env bash\necho '{version}'\n")
                environment = os.environ | {"PATH": f"{self.work}:{os.environ['PATH']}"}
                done = subprocess.run(self.command("mpirun"), env=environment, capture_output=True, text=True, timeout=TIMEOUT)
                self.assertEqual((done.returncode, done.stdout), (64, ""))
                line = rf"script: {self.work}/mpirun \({re.escape(version)}\) is not the mpirun of Open MPI [0-9.]+, which .*\n"
                self.assertRegex(done.stderr, rf"^{line}$")

    def test_a_command_without_the_program_is_refused(self):
        command = [BIN / "carillon", "launch", "--program", "mnist_train", "--", "mpirun", "mnist_eval"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 64)
        self.assertEqual(done.stderr, "carillon: launch: --program mnist_train: COMMAND does not contain this word\n")


class RepeatErrorTest(ScriptTest):
    """Tests of the lines that carillon launch prints after the end of mpirun."""

    def errors(self, code, line):
        """Returns the lines on stderr of a launch whose program reports `line` and ends with `code`. After the
        program's end, mpirun prints its own lines."""
        keep = f'echo "{line}" | tee -a "$CARILLON_ERROR_FILE" >&2\n' if line else ""
        version = "if [[ $1 == --version ]]; then echo 'mpirun (Open MPI) 4.1.0'; exit; fi\n"
        self.stub("mpirun", f"#!/usr/bin/env bash\n{version}{keep}echo 'Primary job terminated normally' >&2\nexit {code}\n")
        environment = os.environ | {"PATH": f"{self.work}:{os.environ['PATH']}", "TMPDIR": str(self.work)}
        command = [BIN / "carillon", "launch", "--program", "mpirun", "--", "mpirun"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, code)
        self.assertEqual(list(self.work.glob("carillon-*")), [], "the temporary files are removed")
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

    def test_without_slurm_a_batch_script_says_how_to_start_it(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        for name in ("mnist", "cifar10", "images", "sweep"):
            with self.subTest(script=name):
                done = subprocess.run(["bash", JOBS / f"{name}.sbatch"], env=environment, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (64, ""))
                self.assertRegex(done.stderr, rf"^{name}\.sbatch: this is not a Slurm job: submit it with sbatch.*\n$")

    def run_script(self, code, program="mnist_train", state="RUNNING", **variables):
        """Runs the script; its srun ends with `code`. Returns (exit code, requeued jobs)."""
        self.log.write_text("")
        for name, text in (("srun", SRUN), ("squeue", SQUEUE), ("scontrol", SCONTROL), (program, SRUN)):
            self.stub(name, text)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        environment |= {"PATH": f"{self.work}:{environment['PATH']}", "LOG": str(self.log), "SLURM_JOB_ID": "17"}
        environment |= {"SRUN_CODE": str(code), "JOB_STATE": state} | variables
        command = [JOBS / "slurm_train.sh", self.work / program, "--max-steps", "5"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        return done.returncode, self.logged()

    def test_stopped_training_is_requeued(self):
        self.assertEqual(self.run_script(75), (75, ["17"]))

    def test_array_task_is_requeued_by_its_array_number(self):
        for job in ("17", "20"):  # the job id of an array's last task equals the id of the array
            array = {"SLURM_JOB_ID": job, "SLURM_ARRAY_JOB_ID": "20", "SLURM_ARRAY_TASK_ID": "3"}
            self.assertEqual(self.run_script(75, **array), (75, ["20_3"]))

    def test_cancelled_job_is_not_requeued(self):
        self.assertEqual(self.run_script(75, state="COMPLETING"), (75, []))

    def test_training_killed_by_usr1_at_its_start_is_requeued(self):
        self.assertEqual(self.run_script(self.KILLED_BY_USR1), (75, ["17"]))

    def test_other_program_killed_by_usr1_is_not_requeued(self):
        self.assertEqual(self.run_script(self.KILLED_BY_USR1, program="mnist_eval"), (self.KILLED_BY_USR1, []))

    def test_other_exit_codes_are_returned(self):
        for code in (0, 1, 70, 128 + signal.SIGTERM):
            with self.subTest(code=code):
                self.assertEqual(self.run_script(code), (code, []))


class CoresTest(ScriptTest):
    """Tests jobs/mpi_env.sh on a machine with two cores of two hardware threads each, and a third core on another
    socket."""

    def cores(self, allowed):
        threads = "0,0,0\n1,1,0\n2,0,0\n3,1,0\n4,0,1\n"
        self.stub("lscpu", f"#!/usr/bin/env bash\nprintf '# CPU,Core,Socket\n{threads}'\n")
        script = f'source "{JOBS}/mpi_env.sh"; cores_of {allowed}'
        path = f"{self.work}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=os.environ | {"PATH": path}, capture_output=True, text=True)
        return done.stdout.strip() or done.stderr

    def test_counts_the_cores_of_the_allowed_threads(self):
        for allowed, expected in (("0-4", "3"), ("0,2", "1"), ("0-1", "2"), ("2-4", "3"), ("3-4,8-15", "2"), ("7", "0"), ("''", "3")):
            self.assertEqual(self.cores(allowed), expected, allowed)

    def cores_of_process(self, allowed, path):
        script = f'source "{JOBS}/mpi_env.sh"; echo "$cores"'
        command = ["taskset", "-c", ",".join(map(str, allowed)), "bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True)
        return done.stdout.strip() or done.stderr

    def test_a_process_of_one_thread_has_one_core(self):
        self.assertEqual(self.cores_of_process([min(os.sched_getaffinity(0))], os.environ["PATH"]), "1")

    def test_without_lscpu_each_thread_counts(self):
        self.stub("lscpu", "#!/usr/bin/env bash\nexit 1\n")
        threads = sorted(os.sched_getaffinity(0))
        self.assertEqual(self.cores_of_process(threads, f"{self.work}:{os.environ['PATH']}"), str(len(threads)))


class RestartTest(ScriptTest):
    """Tests how the three job scripts restart a training."""

    def setUp(self):
        super().setUp()
        self.run_directory = self.work / "run"
        self.run_directory.mkdir()
        self.stub("mpirun", MPIRUN)
        self.stub("srun", SRUN_WITH_PROGRAM)
        self.stub("squeue", SQUEUE)
        self.stub("scontrol", SCONTROL)
        self.stub("mnist_eval", TRAIN)
        self.program = self.stub("mnist_train", TRAIN)

    def command(self, script, program, *options):
        return [JOBS / script, program, "--train-dir", self.run_directory, *options]

    def environment(self, body, **variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARILLON_", "RESTARTS"))}
        kept |= {"PATH": f"{self.work}:{kept['PATH']}", "LOG": str(self.log), "BODY": body, "TMPDIR": str(self.work)}
        kept |= {"RANKS": "1", "JOB_STATE": "RUNNING", "SLURM_JOB_ID": "17", "RUN": str(self.run_directory)}
        return kept | variables

    def run_command(self, command, body, **variables):
        """Runs the command. Returns (exit code, options of each start, lines on stderr that announce a restart)."""
        self.log.write_text("")
        done = subprocess.run(
            command, env=self.environment(body, **variables), capture_output=True, text=True, timeout=TIMEOUT, cwd=self.work
        )
        self.errors = done.stderr
        return done.returncode, self.starts(), [line for line in done.stderr.splitlines() if "a rank was lost; restarting" in line]

    def run_script(self, body, *options, script="single_node.sh", program="mnist_train", **variables):
        return self.run_command(self.command(script, self.work / program, *options), body, **variables)

    def starts(self):
        known = f"start --train-dir {self.run_directory}"
        return [line.removeprefix(known).strip() for line in self.log.read_text().splitlines() if line.startswith("start")]

    def test_training_resumes_after_a_lost_rank(self):
        for script in ("single_node.sh", "slurm_train.sh"):
            with self.subTest(script=script):
                (self.run_directory / "model.ckpt-8.h5").unlink(missing_ok=True)
                code, starts, lines = self.run_script('((n > 1)) || { touch "$RUN/model.ckpt-8.h5"; lost; }', "--a", script=script)
                self.assertEqual((code, starts), (0, ["--a", "--a"]))
                name = script.removesuffix(".sh")
                self.assertEqual(
                    lines, [f"{name}: a rank was lost; restarting from step 8 (restart 1 of 3 without a new checkpoint)"]
                )

    def test_all_ranks_killed_at_once(self):
        self.assertEqual(self.run_script("((n > 1)) || kill -9 $$")[:2], (0, ["", ""]))

    def test_every_code_of_a_lost_rank(self):
        for end in ("exit 71", "exit 205", "fails 71; kill -TERM $$", "fails 71; exit 1"):
            with self.subTest(end=end):
                self.assertEqual(self.run_script("((n > 1)) || { " + end + "; }")[:2], (0, ["", ""]))

    def test_gives_up_without_a_new_checkpoint(self):
        code, starts, lines = self.run_script("kill -9 $$", RESTARTS="2")
        self.assertEqual((code, len(starts), len(lines)), (70, 3, 2))
        self.assertIn("single_node: a rank was lost again; no restart is left: 2 without a new checkpoint", self.errors)

    def test_a_new_checkpoint_begins_the_count_again(self):
        code, starts, _ = self.run_script('((n > 3)) || touch "$RUN/model.ckpt-$n.h5"; lost', RESTARTS="2")
        self.assertEqual((code, len(starts)), (70, 5))

    def test_no_restarts(self):
        self.assertEqual(self.run_script("kill -9 $$", RESTARTS="0"), (137, [""], []))
        self.assertEqual(self.run_script("exit 0", RESTARTS="many")[:2], (64, []))
        self.assertIn("RESTARTS is 'many'", self.errors)

    def test_other_failures_lead_to_no_restart(self):
        for body in (
            *(f"exit {code}" for code in (0, 1, 64, 65, 66, 69, 70, 74, 75)),
            "fails 70; exit 70",
            "fails 70; kill -9 $$",
            "fails 65; fails 71; exit 71",  # the first error is the cause
            "kill -TERM $$",
        ):
            with self.subTest(body=body):
                self.assertEqual(self.run_script(body)[1:], ([""], []))

    def test_other_programs_are_not_started_again(self):
        self.assertEqual(self.run_script("lost", program="mnist_eval"), (71, [""], []))

    def test_fresh_is_not_repeated(self):
        config = self.work / "some.cfg"
        config.write_text("learning-rate = 0.1\nfresh = true  # once\nresume = never\n")
        body = 'touch "$RUN/model.ckpt-8.h5"; ((n > 1)) || lost'
        for given, expected in (
            (("--fresh", "--a"), "--a"),
            (("--fresh", "True", "--a"), "--a"),
            (("--fresh=1", "--resume", "never", "b"), "b"),
            (("--resume=never", "--resume-from", "x"), "--resume-from x"),
            (("--resume", "require"), "--resume require"),
            (("--config", str(config)), f"--config {config} --fresh=false --resume=auto"),
        ):
            with self.subTest(given=given):
                (self.run_directory / "model.ckpt-8.h5").unlink(missing_ok=True)
                self.assertEqual(self.run_script(body, *given)[:2], (0, [" ".join(given), expected]))
        (self.run_directory / "model.ckpt-8.h5").unlink()
        found = self.run_script(body, CARILLON_FRESH="true")
        self.assertEqual(found[:2], (0, ["", "--fresh=false"]))

    def test_fresh_is_repeated_until_it_has_removed_the_earlier_checkpoints(self):
        (self.run_directory / "model.ckpt-5.h5").touch()
        body = '((n == 1)) && lost; rm -f "$RUN"/*; touch "$RUN/model.ckpt-8.h5"; ((n > 2)) || lost'
        self.assertEqual(self.run_script(body, "--fresh")[:2], (0, ["--fresh", "--fresh", ""]))

    def test_train_directory_from_other_places(self):
        config = self.work / "other.cfg"
        config.write_text(f"train_dir = {self.run_directory}\n")
        (self.run_directory / "model.ckpt-8.h5").touch()
        for words, variables in (
            ((f"--train_dir={self.run_directory}",), {}),
            (("--config", config), {"CARILLON_TRAIN_DIR": "elsewhere"}),
            ((), {"CARILLON_TRAIN_DIR": str(self.run_directory)}),
        ):
            with self.subTest(words=words):
                lines = self.run_command([JOBS / "single_node.sh", self.program, *words], "((n > 1)) || lost", **variables)[2]
                self.assertIn("from step 8 ", lines[0])

    def start_and_signal(self, body, number, condition, name="single_node.sh"):
        """Sends the signal to a script when the condition holds. Returns (exit code, number of starts)."""
        script = subprocess.Popen(
            self.command(name, self.program), env=self.environment(body), start_new_session=True,
            stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals,
        )  # fmt: skip
        self.addCleanup(lambda: script.poll() is None and programs.kill(script))
        self.wait_for(condition, "the training is in the expected state")
        script.send_signal(number)
        _, self.errors = script.communicate(timeout=TIMEOUT)
        return script.returncode, len(self.starts())

    def test_term_stops_a_restarted_training(self):
        body = "((n > 1)) || lost; trap 'sleep 0.3; exit 75' USR1; touch \"$RUN/ready\"; while :; do sleep 0.02; done"
        handle = HANDLE_USR1 % "kill -USR1 $!"
        self.stub("mpirun", MPIRUN.replace('"$@"\n', handle))
        self.stub("srun", SRUN_WITH_PROGRAM.replace('"$@"\n', handle))
        ready = self.run_directory / "ready"
        for script in ("single_node.sh", "slurm_train.sh"):
            with self.subTest(script=script):
                self.log.write_text("")
                ready.unlink(missing_ok=True)
                self.assertEqual(self.start_and_signal(body, signal.SIGTERM, ready.exists, script), (75, 2))

    def test_a_rank_that_ends_after_a_stop_signal_leads_to_no_restart(self):
        body = 'touch "$RUN/ready"; until [[ -e $RUN/go ]]; do sleep 0.02; done; lost'
        self.stub("mpirun", MPIRUN.replace('"$@"\n', HANDLE_USR1 % "touch $RUN/go"))
        ready = self.run_directory / "ready"
        self.assertEqual(self.start_and_signal(body, signal.SIGTERM, ready.exists), (75, 1))

    def test_slurm_finds_the_code_of_another_node(self):
        body = "((n > 1)) || lost"
        self.assertEqual(self.run_script(body, script="slurm_train.sh", ON_OTHER_HOST="1")[:2], (0, ["", ""]))

    def test_cancelled_slurm_job_is_not_started_again(self):
        found = self.run_script("lost", script="slurm_train.sh", JOB_STATE="COMPLETING")
        self.assertEqual(found[:2], (71, [""]))

    def run_on_hosts(self, *options, **variables):
        hosts = self.work / "hosts.txt"
        hosts.write_text("n1 slots=2  # the first\nn2 slots=4\n")
        agent = self.stub("agent", AGENT)
        command = [JOBS / "multi_node_mpirun.sh", hosts, self.program, "--train-dir", self.run_directory, *options]
        variables = {"RANKS": "6", "OMPI_MCA_plm_rsh_agent": str(agent)} | variables
        return self.run_command(command, "((n > 1)) || lost", ON_OTHER_HOST="1", **variables)

    def launched(self):
        """Returns, for each start, the number of ranks and the lines of the host file."""
        text = self.log.read_text().split("mpirun -np ")[1:]
        return [(int(part.split()[0]), [line for line in part.splitlines() if "slots=" in line]) for part in text]

    def test_lost_host_is_left_out(self):
        both = ["n1 slots=2  # the first", "n2 slots=4"]
        for down, options, second, said in (
            ("none", (), (6, both), ""),
            ("n2", (), (2, ["n1 slots=2"]), "n2; 2 ranks instead of 6, and the global batch changes in proportion"),
            ("n1", ("--global-batch", "96"), (4, ["n2 slots=4"]), "n1; 4 ranks instead of 6\n"),
        ):
            with self.subTest(down=down):
                code, starts, _ = self.run_on_hosts(*options, DOWN=down)
                self.assertEqual((code, len(starts)), (0, 2))
                self.assertEqual(self.launched(), [(6, both), second])
                self.assertIn(f"multi_node_mpirun: no answer, left out: {said}" if said else "a rank was lost; restarting", self.errors)

    def test_a_rank_for_each_gpu(self):
        for visible, count in (("0", 1), ("2,3", 2), ("-1", 0), ("0,-1,1", 1), ("", 0), ("GPU-3f,GPU-4e", 2)):
            with self.subTest(visible=visible):
                self.assertEqual(self.run_script("true", RANKS="", CUDA_VISIBLE_DEVICES=visible)[0], 0)
                ranks = f"mpirun -np {count} " if count > 0 else "mpirun -np "
                self.assertRegex(self.errors, rf"single_node: {count} GPUs, \d+ cores: {ranks}")

    def test_no_host_answers(self):
        self.stub("agent", AGENT)
        hosts = self.work / "hosts.txt"
        hosts.write_text("n1 slots=2\n")
        command = [JOBS / "multi_node_mpirun.sh", hosts, self.program, "--train-dir", self.run_directory]
        found = self.run_command(command, "lost", RANKS="2", OMPI_MCA_plm_rsh_agent=str(self.work / "agent"), DOWN="n1")
        self.assertEqual(found[:2], (70, [""]))
        self.assertIn("no host of", self.errors)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    options, words = parser.parse_known_args()
    BIN = options.bin.resolve()
    unittest.main(argv=[sys.argv[0], *words])
