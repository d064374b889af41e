"""One JAX CPU process of mnist_vs_pytorch.py: the training of mnist_train, optimised with JAX's own functions.

The network, the loss, the update and the moving averages are the same as in torch_worker.py. The loop is jax_loop.py's.
"""

import jax_loop

L2, DECAY = 1e-4, 0.99


def main():
    parser = jax_loop.arguments(__doc__, batch=100, steps_per_call=200)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    options = jax_loop.parse(parser)

    import jax
    import jax.numpy as jnp
    import numpy as np
    from idx import read_idx  # jax_loop adds its folder to the import path

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

    def step(state, index, _):
        variables, averages = state
        x = images[index].astype(jnp.float32) / 255.0
        value, gradients = jax.value_and_grad(loss)(variables, x, labels[index])
        variables = jax.tree.map(lambda v, g: v - options.learning_rate * g, variables, gradients)
        averages = jax.tree.map(lambda a, v: a + (1 - DECAY) * (v - a), averages, variables)
        return (variables, averages), value

    random = np.random.default_rng(0)

    def layer(rows, columns):
        weights = np.clip(random.normal(0, 0.1, (rows, columns)), -0.2, 0.2)
        return jnp.asarray(weights, jnp.float32), jnp.zeros(columns, jnp.float32)

    variables = layer(784, 500), layer(500, 10)
    jax_loop.measure(options, len(labels), (variables, jax.tree.map(jnp.copy, variables)), step)


if __name__ == "__main__":
    main()
