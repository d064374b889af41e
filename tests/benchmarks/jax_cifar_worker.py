"""One JAX CPU process of cifar10_vs_pytorch.py and resnet_vs_pytorch.py: the training of cifar10_train in JAX.

--network tutorial does the work of torch_cifar_worker.py, the other networks that of torch_resnet_worker.py without
cutout. Activations are [batch, height, width, channels]. Batch norms compute in float32. The loop is jax_loop.py's.
"""

import jax_loop

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
NETWORKS = ("tutorial", "resnet9", "resnet18_cifar", "airbench94")


class Variables:
    """The arrays of a network, in the order in which its functions take them. The first pass draws them."""

    def __init__(self, random, arrays=None, statistics=None):
        self.random, self.is_first = random, arrays is None
        self.arrays, self.statistics = list(arrays or []), list(statistics or [])
        self.taken = self.norms = 0
        self.new_statistics = []

    def take(self, shape, deviation, value=0.0):
        import numpy as np

        if self.is_first:
            self.arrays.append((value + deviation * self.random.standard_normal(shape)).astype(np.float32))
        self.taken += 1
        return self.arrays[self.taken - 1]


def functions(options):
    """The layers, for this precision."""
    import jax
    import jax.numpy as jnp

    def lower(*arrays):
        return [array.astype(jnp.bfloat16) if options.bf16 else array for array in arrays]

    class Layers:
        @staticmethod
        def conv(v, x, filters, side=3, stride=1, bias=None, deviation=None, padding="SAME"):
            fan = side * side * x.shape[-1]
            weights = v.take((side, side, x.shape[-1], filters), deviation or (2 / fan) ** 0.5)
            y = jax.lax.conv_general_dilated(*lower(x, weights), (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return y if bias is None else y + v.take((filters,), 0.0, bias).astype(y.dtype)

        @staticmethod
        def norm(v, x, decay=0.9, eps=1e-5, is_scaled=True):
            x = x.astype(jnp.float32)
            mean, square = jnp.mean(x, (0, 1, 2)), jnp.mean(x * x, (0, 1, 2))
            variance = square - mean * mean
            if v.is_first:
                v.statistics.append((jnp.zeros_like(mean), jnp.ones_like(mean)))
            old = v.statistics[v.norms]
            v.norms += 1
            v.new_statistics.append(tuple(decay * o + (1 - decay) * n for o, n in zip(old, (mean, variance))))
            factor = jax.lax.rsqrt(variance + eps) * (v.take(mean.shape, 0.0, 1.0) if is_scaled else 1.0)
            return x * factor + (v.take(mean.shape, 0.0) - mean * factor)

        @staticmethod
        def dense(v, x, outputs, deviation, bias=None):
            y = jnp.matmul(*lower(x, v.take((x.shape[-1], outputs), deviation)), preferred_element_type=jnp.float32)
            return y if bias is None else y + v.take((outputs,), 0.0, bias)

        @staticmethod
        def pool(x, side, stride, padding="VALID"):
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, side, side, 1), (1, stride, stride, 1), padding)

        @staticmethod
        def lrn(x):
            squares = jnp.pad(x * x, ((0, 0), (0, 0), (0, 0), (4, 4)))
            s = 1 + 0.001 / 9 * sum(squares[..., i : i + x.shape[-1]] for i in range(9))
            root = jax.lax.rsqrt(s)
            return x * (jnp.sqrt(root) * root)

    return Layers


def forward(name, v, x, layers):
    """The logits [batch, 10]."""
    import jax
    import jax.numpy as jnp

    relu = jax.nn.relu

    def block(x, filters, stride=1):
        return relu(layers.norm(v, layers.conv(v, x, filters, 3, stride)))

    if name == "tutorial":
        x = layers.conv(v, x, 64, 5, bias=0.0, deviation=0.05)
        x = layers.lrn(relu(layers.pool(x, 3, 2, "SAME")).astype(jnp.float32))
        x = layers.lrn(relu(layers.conv(v, x, 64, 5, bias=0.1, deviation=0.05)).astype(jnp.float32))
        x = layers.pool(x, 3, 2, "SAME").reshape(len(x), -1)
        x = relu(layers.dense(v, x, 384, 0.04, 0.1))
        return layers.dense(v, relu(layers.dense(v, x, 192, 0.04, 0.1)), 10, 1 / 192, 0.0)
    if name == "resnet9":
        x = layers.pool(block(block(x, 64), 128), 2, 2)
        x = x + block(block(x, 128), 128)
        x = layers.pool(block(layers.pool(block(x, 256), 2, 2), 512), 2, 2)
        x = layers.pool(x + block(block(x, 512), 512), 4, 4).reshape(len(x), -1)
        return 0.125 * layers.dense(v, x, 10, 0.04)
    if name == "resnet18_cifar":
        x = block(x, 64)
        for filters in (64, 128, 256, 512):
            for stride in (1 if filters == 64 else 2, 1):
                branch = layers.norm(v, layers.conv(v, block(x, filters, stride), filters))
                x = relu(branch + (x if stride == 1 else layers.norm(v, layers.conv(v, x, filters, 1, stride))))
        return layers.dense(v, jnp.mean(x, (1, 2)), 10, 0.04, 0.0)
    gelu = lambda x: jax.nn.gelu(x, approximate=False)
    x = gelu(layers.conv(v, x, 24, 2, bias=0.0, padding="VALID"))
    for filters in (64, 256, 256):
        norm = {"decay": 0.6, "eps": 1e-12, "is_scaled": False}
        x = gelu(layers.norm(v, layers.pool(layers.conv(v, x, filters), 2, 2), **norm))
        x = gelu(layers.norm(v, layers.conv(v, x, filters), **norm))
    return layers.dense(v, layers.pool(x, 3, 3).reshape(len(x), -1), 10, 0.04) / 9


def main():
    parser = jax_loop.arguments(__doc__, batch=128, steps_per_call=1)
    parser.add_argument("--network", choices=NETWORKS, default="tutorial")
    options = jax_loop.parse(parser)

    import jax
    import jax.numpy as jnp
    import numpy as np
    from cifar import read_cifar10  # jax_loop adds its folder to the import path

    images, labels = read_cifar10(options.data, "train")
    images = images.transpose(0, 2, 3, 1)
    is_tutorial = options.network == "tutorial"
    padding, crop = (0, 24) if is_tutorial else (2 if options.network == "airbench94" else 4, 32)
    mode = "constant" if options.network == "resnet18_cifar" else "reflect"
    border = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    images = jnp.asarray(np.pad(images, border, mode))
    labels = jnp.asarray(labels.astype(np.int32))
    span = images.shape[1] - crop + 1
    layers = functions(options)

    def distorted(index, key):
        keys, count = jax.random.split(key, 5), len(index)
        offsets = jnp.arange(crop)
        rows = jax.random.randint(keys[0], (count, 1), 0, span) + offsets
        columns = jax.random.randint(keys[1], (count, 1), 0, span) + offsets
        columns = jnp.where(jax.random.bernoulli(keys[2], 0.5, (count, 1)), columns[:, ::-1], columns)
        x = images[index[:, None, None], rows[:, :, None], columns[:, None, :]].astype(jnp.float32)
        if not is_tutorial:
            return (x / 255 - jnp.asarray(MEAN)) / jnp.asarray(DEVIATION)
        mean = jnp.mean(x, (1, 2), keepdims=True)
        brightness = jax.random.uniform(keys[3], (count, 1, 1, 1), minval=-63, maxval=63)
        x = (x - mean) * jax.random.uniform(keys[4], (count, 1, 1, 1), minval=0.2, maxval=1.8) + (mean + brightness)
        centre = jnp.mean(x, (1, 2, 3), keepdims=True)
        deviation = jnp.sqrt(jnp.mean(jnp.square(x - centre), (1, 2, 3), keepdims=True))
        return (x - centre) / jnp.maximum(deviation, 1 / (3 * crop * crop) ** 0.5)

    smoothing = 0.2 if options.network == "airbench94" else 0.0

    def loss(arrays, statistics, x, y):
        v = Variables(None, arrays, statistics)
        logs = jax.nn.log_softmax(forward(options.network, v, x, layers))
        target = (1 - smoothing) * jnp.take_along_axis(logs, y[:, None], axis=1)[:, 0] + smoothing * jnp.mean(logs, 1)
        task = -jnp.mean(target)
        if is_tutorial:  # L2 on the weights of local3 and local4
            task += 0.5 * 0.004 * sum(jnp.sum(jnp.square(arrays[i])) for i in (4, 6))
        return task, v.new_statistics

    def step(state, index, key):
        arrays, statistics, second = state
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, statistics), gradients = gradient(arrays, statistics, distorted(index, key), labels[index])
        if is_tutorial:  # `second` has the moving averages
            arrays = [a - 0.1 * g for a, g in zip(arrays, gradients)]
            second = [s + (1 - 0.9999) * (a - s) for s, a in zip(second, arrays)]
        else:  # `second` has the momentum of Nesterov's update
            gradients = [g + 5e-4 * a for a, g in zip(arrays, gradients)]
            second = [0.9 * s + g for s, g in zip(second, gradients)]
            arrays = [a - 0.01 * (g + 0.9 * s) for a, g, s in zip(arrays, gradients, second)]
        return (arrays, statistics, second), value

    first = Variables(np.random.default_rng(0))
    forward(options.network, first, jnp.zeros((2, crop, crop, 3)), layers)
    arrays = [jnp.asarray(array) for array in first.arrays]
    second = [jnp.array(array) if is_tutorial else jnp.zeros_like(array) for array in arrays]
    jax_loop.measure(options, len(labels), (arrays, first.statistics, second), step)


if __name__ == "__main__":
    main()
