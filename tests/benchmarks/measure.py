"""Helpers of the comparisons: interleaved runs, medians, and the description of the machine."""

import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time


# The processor flags on which the speed of matrix products depends.
FLAGS = {"AVX512": "avx512f", "AVX512-BF16": "avx512_bf16", "AMX-BF16": "amx_bf16"}


def environment(more):
    """Returns the environment of this process with additional variables."""
    return os.environ | dict(more)


def run(command, more_environment=(), timeout=600):
    """Runs a command. Returns (standard output, peak resident bytes of the largest process in its process tree).

    Linux counts the memory that a process has before exec, so the caller must be small: it must import no framework.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(word) for word in command], stdout=output, stderr=errors, env=environment(more_environment)
        )
        deadline = time.monotonic() + timeout
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                process.kill()
                os.wait4(process.pid, 0)
                sys.exit(f"still running after {timeout} s: {' '.join(map(str, command))}")
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            sys.exit(f"exit code {process.returncode}: {' '.join(map(str, command))}\n{errors.read()[-2000:]}")
        return output.read(), usage.ru_maxrss * 1024


def mpirun(ranks):
    if os.geteuid() == 0:
        os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return ["mpirun", "-np", str(ranks), "--bind-to", "core"]


def interleaved(rounds, configurations, until=float("inf")):
    """Returns {name: [(rate, peak bytes) per round]}. Each round runs every configuration once, so a change of the
    machine's speed affects all configurations equally.

    configurations: {name: function that returns (rate, peak bytes), or None if it cannot run}
    until: time.time() after which no run is started. Configurations without a result are omitted.
    """
    found = {name: [] for name in configurations}
    for index in range(rounds):
        for name, measure in configurations.items():
            if result := measure() if time.time() < until else None:
                found[name].append(result)
                print(f"round {index + 1} of {rounds}: {name}: {shown(result[0])}/s", file=sys.stderr, flush=True)
    return {name: results for name, results in found.items() if results}


def shown(rate):
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.2f}"


def median(results):
    return statistics.median(rate for rate, _ in results)


def table(found, unit):
    """Yields Markdown lines, one per configuration."""
    yield f"| configuration | {unit}/s (median) | lowest to highest | peak memory of a process |"
    yield "|---|---|---|---|"
    for name, results in found.items():
        rates = [rate for rate, _ in results]
        peak = max(peak for _, peak in results) / 2**20
        yield f"| {name} | {shown(median(results))} | {shown(min(rates))} to {shown(max(rates))} | {peak:,.0f} MiB |"


def comparison(found, ours, theirs, unit):
    """Yields Markdown lines: the table, then the ratio of the best configurations."""
    yield from table(found, unit)
    best = {side: max(names, key=lambda name: median(found[name])) for side, names in (("a", ours), ("b", theirs))}
    ratio = median(found[best["a"]]) / median(found[best["b"]])
    yield ""
    yield f"Best of ours ({best['a']}) / best of theirs ({best['b']}): **{ratio:.2f}**"


def conditions(rounds, **versions):
    """Yields Markdown lines: the machine, its load, and versions."""
    lines = (line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in lines}
    processor = facts.get("model name", platform.processor() or "unknown")
    if "cpu family" in facts:
        processor += f", family {facts['cpu family']} model {facts['model']}"
    has = set(facts.get("flags", "").split())
    flags = ", ".join(f"{name} {'yes' if flag in has else 'no'}" for name, flag in FLAGS.items())
    release = dict(
        line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line
    )
    yield f"- {processor}; {flags}; {len(os.sched_getaffinity(0))} cores; {release['PRETTY_NAME'].strip(chr(34))}"
    yield f"- load average at the start {os.getloadavg()[0]:.2f}; {time.strftime('%Y-%m-%d')}"
    yield f"- {rounds} rounds, every configuration once per round; " + ", ".join(f"{k} {v}" for k, v in versions.items())


def training_rate(train_dir, global_batch, skip_steps):
    """Returns the examples per second of the whole training loop, computed from the wall time between two lines of
    metrics.jsonl.

    The lines are the first line at or after step skip_steps (earlier steps are start-up) and the last line.
    """
    lines = [json.loads(line) for line in (pathlib.Path(train_dir) / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line and line["step"] >= skip_steps]
    if len(lines) < 2:
        sys.exit(f"{train_dir}/metrics.jsonl: fewer than two lines after step {skip_steps}")
    return (lines[-1]["step"] - lines[0]["step"]) * global_batch / (lines[-1]["time"] - lines[0]["time"])
