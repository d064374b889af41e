"""One JAX CPU process of mnist_vs_pytorch.py: the training of mnist_train, optimised with JAX's own functions.

The network, the loss, the update and the moving averages are the same as in torch_worker.py. Each call of a compiled
function runs 200 steps in `lax.scan`, so Python costs nothing between the steps. The images stay on the device as
uint8; each step gathers its batch by shuffled indices. Prints {"examples_per_second": ...}. --threads 1 restricts the
process to one core. --bf16: matrix products read bfloat16 and add in float32; the weights remain in float32.
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "acceptance"))

STEPS = 200  # per call of the compiled function
L2, DECAY = 1e-4, 0.99


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of the IDX files")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of the measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # before JAX starts its threads

    import jax
    import jax.numpy as jnp
    import numpy as np
    from idx import read_idx

    images, labels = (jnp.asarray(array) for array in read_idx(options.data, "train"))
    images = images.reshape(len(images), -1)
    labels = labels.astype(jnp.int32)

    def product(x, weights):
        if options.bf16:
            x, weights = x.astype(jnp.bfloat16), weights.astype(jnp.bfloat16)
        return jnp.matmul(x, weights, preferred_element_type=jnp.float32)

    def loss(variables, x, y):
        (w1, b1), (w2, b2) = variables
        logits = product(jax.nn.relu(product(x, w1) + b1), w2) + b2
        task = -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))
        return task + 0.5 * L2 * (jnp.sum(w1 * w1) + jnp.sum(w2 * w2))

    def step(state, index):
        variables, averages = state
        x = images[index].astype(jnp.float32) / 255.0
        value, gradients = jax.value_and_grad(loss)(variables, x, labels[index])
        variables = jax.tree.map(lambda v, g: v - options.learning_rate * g, variables, gradients)
        averages = jax.tree.map(lambda a, v: a + (1 - DECAY) * (v - a), averages, variables)
        return (variables, averages), value

    run = jax.jit(lambda state, indices: jax.lax.scan(step, state, indices), donate_argnums=0)

    random = np.random.default_rng(1)

    def layer(rows, columns):
        weights = np.clip(random.normal(0, 0.1, (rows, columns)), -0.2, 0.2)
        return jnp.asarray(weights, jnp.float32), jnp.zeros(columns, jnp.float32)

    def state():
        return layer(784, 500), layer(500, 10)

    def indices():
        order = np.concatenate([random.permutation(len(labels)) for _ in range(STEPS * options.batch // len(labels) + 1)])
        return jnp.asarray(order[: STEPS * options.batch].reshape(STEPS, options.batch).astype(np.int32))

    variables = state()
    carry = (variables, jax.tree.map(jnp.copy, variables))
    for _ in range(2):
        carry, values = run(carry, indices())
    values.block_until_ready()
    done, started = 0, time.monotonic()
    while time.monotonic() - started < options.seconds:
        carry, values = run(carry, indices())
        values.block_until_ready()
        done += STEPS * options.batch
    seconds = time.monotonic() - started
    assert np.isfinite(np.asarray(values)).all()
    print(json.dumps({"examples_per_second": done / seconds, "loss": float(values[-1])}))


if __name__ == "__main__":
    main()
