"""carillon train measures the GPUs and starts a rank for each GPU. This check uses fake GPUs: it runs the programs that
are built with tests/support/fake_cuda."""

import json
import signal

import check_carillon
import programs
from processes import wait_for
from programs import Result

QUICK = ("--model", "airbench94", "--image-size", 12)


def check(context):
    """carillon on GPUs"""
    yield _planned(context, 1, 1, "--minutes", 0.2)  # without a number of steps, the program measures the GPU
    # A small machine has fewer than 8 cores, so the number of ranks must come from the number of GPUs.
    yield _planned(context, 8, 8, "--global-batch", 128, "--max-steps", 2)
    yield _planned(context, 8, 4, "--global-batch", 64, "--max-steps", 2)
    yield _stopped(context)


def _result(title, wrong, detail=""):
    return Result(f"carillon on GPUs: {title}", not wrong, str(wrong or detail))


def _run(context, gpus, *options):
    """Runs carillon train. Returns the finished program, and the content of the plan.json that it has written."""
    run, data = context.directory("run"), context.directory("data")
    command = check_carillon.command(context, run, data, *QUICK, "--dry-run", *options)
    done = context.finish(context.start(command, {"CARILLON_FAKE_CUDA_DEVICES": str(gpus)}))
    return done, json.loads((run / "plan.json").read_text()) if done.code == 0 else {}


def _planned(context, gpus, ranks, *options):
    done, plan = _run(context, gpus, *options)
    counted = f"({gpus} GPU{'s' if gpus > 1 else ''})" in done.output
    wrong = done.complaint(0) or (not counted and done.output) or (plan["ranks"] != ranks and f"the plan is {plan}")
    return _result(f"{gpus} with {' '.join(map(str, options))}: {ranks} ranks", wrong, f"{plan.get('steps')} steps")


def _stopped(context):
    run, data = context.directory("run"), context.directory("data")
    process = context.start(check_carillon.command(context, run, data, *QUICK, "--minutes", 1))
    wait_for(process, lambda: (run / ".trial").exists(), "a measurement")
    process.send_signal(signal.SIGINT)
    done = context.finish(process)
    wrong = done.explain() if done.code != 75 else "it made a plan" if (run / "plan.json").exists() else ""
    return _result("a signal during a measurement stops the command", wrong)


if __name__ == "__main__":
    programs.main(check)
