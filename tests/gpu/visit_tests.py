"""Phases tests and sanitizer of gpu_visit.py: each GPU test in a separate process, without or with
compute-sanitizer."""

import concurrent.futures
import contextlib
import re
import time

from visit import Deadline, last_line


def gtest_names(output):
    suite = ""
    for line in output.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            yield suite + name.strip()
        elif name.endswith("."):
            suite = name


def matching_tests(visit, phase, pattern, until):
    """Returns the test program and the names of its tests that match `pattern`. If no test matches, also reports a
    failure."""
    program = visit.options.elf / "gpu_test"
    code, output, _ = visit.run([program, "--gtest_list_tests"], f"{phase}.log", until=until)
    names = [name for name in gtest_names(output) if code == 0 and re.search(pattern, name)]
    if not names:
        visit.result(f"{phase}: list of tests", False, last_line(output))
    return program, names


def tests(visit, until):
    program, names = matching_tests(visit, "tests", visit.options.tests, until)
    if not names:
        return
    failed = []

    def one(name, early):
        log = "tests.log"
        try:
            code, output, took = visit.run(
                [program, f"--gtest_filter={name}", "--gtest_brief=1"], log, more={"CARILLON_EARLY_LAUNCH": early}, until=until
            )
        except Deadline:
            visit.result(f"tests: {name}, early launch {early}", False, "not started in time")
            failed.append(name)
            return
        passed = code == 0 and "[  PASSED  ] 1 test" in output
        if passed:
            visit.say(f"PASS  {name}, early launch {early}, {took:.1f} s", "tests_passed.txt")
            visit.passes += 1
        else:
            visit.result(f"tests: {name}, early launch {early}", False, f"{code}: {last_line(output)}", took)
            failed.append(name)

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(visit.options.jobs) as pool:
        done = [pool.submit(one, name, early) for early in visit.options.early.split(",") for name in names]
        done += [pool.submit(_shared, visit, until, ranks) for ranks in (1, 2, 4)]
        for each in done:
            each.result()
    visit.say(f"      {len(names)} tests, {len(set(failed))} failed, {time.monotonic() - began:.0f} s")
    for name in list(dict.fromkeys(failed))[: visit.options.memcheck]:
        with contextlib.suppress(Deadline):
            command = ["compute-sanitizer", "--tool", "memcheck", "--print-limit", "5", program, f"--gtest_filter={name}"]
            code, output, took = visit.run(command, "memcheck.log", until=until)
            found = [line for line in output.splitlines() if "=========" in line and re.search("Invalid|Error|error", line)]
            visit.say(f"      memcheck of {name}: {(found or [last_line(output)])[0][:120]}")


def _shared(visit, until, ranks):
    """Runs the tests in which ranks share the GPU."""
    name = f"tests: gpu_mpi_test, {ranks} ranks"
    command = [visit.options.bin / "mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none",
               visit.options.elf / "gpu_mpi_test"]  # fmt: skip
    if not command[0].exists():
        command[0] = "mpirun"
    try:
        code, output, took = visit.run(command, "tests.log", 90, until=until)
    except Deadline:
        visit.result(name, False, "not started in time")
        return
    visit.result(name, code == 0 and "SKIPPED" not in output, "" if code == 0 else last_line(output), took)


def sanitizer(visit, until):
    program, names = matching_tests(visit, "sanitizer", visit.options.sanitize, until)

    def one(tool, name):
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "86", "--print-limit", "5",
                   program, f"--gtest_filter={name}"]  # fmt: skip
        try:
            code, output, took = visit.run(command, "sanitizer.log", 200, until=until)
        except Deadline:
            visit.result(f"{tool}: {name}", False, "not started in time")
            return
        found = [line for line in output.splitlines() if line.startswith("=========") and re.search(r"[Ee]rror|hazard|Uninit|Invalid", line)]
        if code == 0 and not visit.options.verbose:
            visit.passes += 1
            visit.say(f"PASS  {tool}: {name}, {took:.1f} s", "sanitizer_passed.txt")
        else:
            visit.result(f"{tool}: {name}", code == 0, f"{code}: {(found or [last_line(output)])[0][:110]}", took)

    with concurrent.futures.ThreadPoolExecutor(visit.options.jobs) as pool:
        work = [(tool, name) for tool in visit.options.tools.split(",") for name in names]
        for each in [pool.submit(one, *item) for item in work]:
            each.result()
    visit.say(f"      {len(names)} tests under {visit.options.tools}")
