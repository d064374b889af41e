"""Shared by JAX's CPU processes of the comparisons: options, the stream of batches, the timing.

Each call of a compiled function runs --steps-per-call steps in `lax.scan`, so Python costs nothing between the steps of
a call. The images stay on the device as uint8; each step gathers its batch by shuffled indices. A process prints
{"examples_per_second": ...}.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "acceptance"))


def arguments(description, batch, steps_per_call):
    """Parses the command line, and restricts the process to --threads cores. Must run before the import of JAX, which
    starts its threads."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of the measurement")
    parser.add_argument("--threads", type=int, default=2, help="cores that the process may use")
    parser.add_argument("--steps-per-call", type=int, default=steps_per_call)
    parser.add_argument("--bf16", action="store_true", help="products read bfloat16; the weights remain in float32")
    return parser


def parse(parser):
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    return options


def measure(options, count, state, step):
    """Trains, and prints the examples per second.

    count: number of samples; state: a tree of arrays; step: a function from (state, indices [batch], key) to (state, loss)
    """
    import jax

    def steps(state, inputs):
        return jax.lax.scan(lambda state, one: step(state, *one), state, inputs)

    run = jax.jit(steps, donate_argnums=0)
    random, order = np.random.default_rng(1), np.empty(0, np.int64)
    wanted = options.steps_per_call * options.batch

    def call(state, number):
        nonlocal order
        while len(order) < wanted:
            order = np.concatenate([order, random.permutation(count)])
        taken, order = order[:wanted], order[wanted:]
        keys = jax.random.split(jax.random.key(number), options.steps_per_call)
        state, losses = run(state, (taken.reshape(-1, options.batch).astype(np.int32), keys))
        losses.block_until_ready()
        return state, losses

    for number in range(3):
        state, losses = call(state, number)
    calls, started = 0, time.monotonic()
    while time.monotonic() - started < options.seconds:
        calls += 1
        state, losses = call(state, 2 + calls)
    seconds = time.monotonic() - started
    assert np.isfinite(np.asarray(losses)).all()
    print(json.dumps({"examples_per_second": calls * wanted / seconds, "loss": float(losses[-1])}))
