"""The progress bar appears only if the output is a terminal, also under mpirun, and shows the same loss as the step
lines."""

import os
import pty
import re
import subprocess

import programs
from programs import SCALED, TIMEOUT, ProgramFailed, Result

BAR = re.compile(r"\r\x1b\[K\[[#.]{20}\] +\d+ %  step (\d+)/(\d+)  loss (\S+)  \d+ s left")


def check(context):
    """progress"""
    data = context.small_set(1000) / "train-*"
    steps = 150 if context.quick else 1000

    def command(ranks, *options):
        run = context.directory("progress")
        fixed = ("--data", data, "--train-dir", run, "--device", "cpu", "--max-steps", steps, "--summary-every", 0)
        return run, context.command("mnist_train", *SCALED, "--batch-size", 200, *fixed, *options, ranks=ranks)

    for ranks in (0, 2):
        run, started = command(ranks, "--log-every", 1, "--regularization", 0.01)
        bars = BAR.findall(_on_terminal(context, started))
        expected = programs.losses(run)
        wrong = [bar for bar in bars if abs(float(bar[2]) - expected[int(bar[0]) - 1]) > 6e-4 or int(bar[1]) != steps]
        passed = len(bars) > 1 and not wrong
        yield Result(f"progress: a bar with the lines' loss, {_ranks(ranks)}", passed, f"{len(bars)} bars, wrong {wrong}")

        run, started = command(ranks)
        done = context.run_command(started)
        marks = [mark for mark in ("\r", "\x1b") if mark in done.output + done.errors]
        yield Result(f"progress: no bar in a pipe, {_ranks(ranks)}", done.code == 0 and not marks, f"found {marks}")

    shown = _on_terminal(context, command(0)[1], kind="dumb")
    yield Result("progress: no bar on a dumb terminal", "\x1b" not in shown, "no escape sequence")

    run, started = command(2)
    at = started.index(str(context.binaries / "mnist_train"))
    file = context.directory("output")
    shown = _on_terminal(context, [*started[:at], "bash", "-c", f'"$0" "$@" >{file}', *started[at:]])
    text = file.read_text()
    passed = bool(BAR.search(shown)) and "\r" not in text and "step 10, loss" in text
    yield Result("progress: stdout in a file, the bar on stderr's terminal", passed, f"{len(text)} characters in the file")


def _ranks(ranks):
    return f"mpirun -np {ranks}" if ranks else "one process"


def _on_terminal(context, command, kind="xterm"):
    """Runs a command, which must succeed, on a terminal of the kind `kind`. Returns its output."""
    ours, terminal = pty.openpty()
    process = subprocess.Popen(
        command, env=context.environment() | {"TERM": kind}, stdin=terminal, stdout=terminal, stderr=terminal,
        close_fds=True,
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux raises this error when the last program has closed the terminal
            break
        if not part:
            break
        shown += part
    os.close(ours)
    if process.wait(TIMEOUT) != 0:
        raise ProgramFailed(f"exit code {process.returncode}: {shown.decode()[-300:]}")
    return shown.decode()


if __name__ == "__main__":
    programs.main(check)
