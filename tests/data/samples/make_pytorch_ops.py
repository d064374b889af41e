"""Writes tests/data/samples/pytorch_ops.txt: PyTorch's results of some ops in float64.

  make_pytorch_ops.py OUTPUT

Each line is an array: its name, then its values. Tensors are NHWC, row-major. Inputs are float32 values.
"""

import sys

import torch
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)


def draw(*shape):
    return torch.randn(*shape).float().double()


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def batch_norm(write):
    channels = 5
    norm = torch.nn.BatchNorm2d(channels, eps=1e-5, momentum=0.1)
    norm.weight.data, norm.bias.data = draw(channels), draw(channels)
    write("batch_norm/gamma", norm.weight)
    write("batch_norm/beta", norm.bias)
    for batch in range(3):
        x = (draw(4, 3, 2, channels) * (1 + batch) + 3).float().double().requires_grad_()
        y = nhwc(norm(nchw(x)))
        write(f"batch_norm/x{batch}", x)
    dy = draw(*y.shape)
    norm.zero_grad()
    y.backward(dy)
    for name, values in (("y", y), ("dy", dy), ("dx", x.grad), ("dgamma", norm.weight.grad), ("dbeta", norm.bias.grad),
                         ("moving_mean", norm.running_mean), ("moving_variance", norm.running_var)):
        write(f"batch_norm/{name}", values)
    write("batch_norm/evaluation", nhwc(norm.eval()(nchw(x))))
    for activation in (None, "relu", "gelu"):  # the batch norm is in eval() mode, but the gradients are computed
        x = x.detach().requires_grad_()
        norm.zero_grad()
        y = nhwc(norm(nchw(x)))
        y = getattr(F, activation)(y) if activation else y
        y.backward(dy)
        name = f"batch_norm/frozen_{activation or 'none'}"
        for what, values in (("y", y), ("dx", x.grad), ("dgamma", norm.weight.grad), ("dbeta", norm.bias.grad)):
            write(f"{name}/{what}", values)


def activation(write, name, function):
    x = torch.cat([torch.linspace(-13, 13, 105), draw(40), torch.tensor([0.0, 1e-6, -1e-6, 50.0, -50.0])])
    x = x.float().double().requires_grad_()
    dy = draw(*x.shape)
    y = function(x)
    y.backward(dy)
    for what, values in (("x", x), ("y", y), ("dy", dy), ("dx", x.grad)):
        write(f"{name}/{what}", values)


def average_pooling(write):
    """Average pooling with window 3, stride 2 and TensorFlow's "same": 1 row of padding on both sides, 1 column on the
    right."""
    x = draw(2, 7, 6, 3).requires_grad_()
    y = nhwc(F.avg_pool2d(nchw(x), 3, 2, padding=(1, 0), ceil_mode=True, count_include_pad=False))
    dy = draw(*y.shape)
    y.backward(dy)
    for what, values in (("x", x), ("y", y), ("dy", dy), ("dx", x.grad), ("global", x.mean(dim=(1, 2)))):
        write(f"avg_pool/{what}", values)




def depthwise_convolution(write):
    """Depthwise convolutions as in ConvNeXt (kernel 7, stride 1) and in MobileNets (kernel 3, stride 2). The filters
    are [row, column, 1, channel]."""
    for kernel, stride in ((7, 1), (3, 2)):
        x = draw(2, 9, 8, 5).requires_grad_()
        weights, biases = draw(kernel, kernel, 1, 5).requires_grad_(), draw(5).requires_grad_()
        y = nhwc(F.conv2d(nchw(x), weights.permute(3, 2, 0, 1), biases, stride, kernel // 2, groups=5))
        dy = draw(*y.shape)
        y.backward(dy)
        for what, values in (("x", x), ("weights", weights), ("biases", biases), ("y", y), ("dy", dy), ("dx", x.grad),
                             ("dweights", weights.grad), ("dbiases", biases.grad)):
            write(f"depthwise_conv2d/{kernel}/{what}", values)


def whitening(write):
    """airbench's whitening filters [row, column, channel, filter] for 20 patterned images of 7 x 6 pixels."""
    i, c, y, x = torch.meshgrid(*map(torch.arange, (20, 3, 7, 6)), indexing="ij")
    pixels = (x * (3 + i) + y * (5 + 2 * i) + 40 * c + (x * y * (i + 1) + c * (i % 3)) % 37 * 4) % 256
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))
    images = (pixels / 255 - mean) / deviation
    patches = images.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 4, 5, 1).reshape(-1, 12)
    eigenvalues, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    vectors = vectors.T.flip(0)
    for v in vectors:  # make positive the first component that is at least half as large as the largest one
        v *= v[v.abs() >= v.abs().max() / 2][0].sign()
    filters = vectors / (eigenvalues.flip(0)[:, None] + 5e-4).sqrt()
    write("whitening/filters", torch.cat([filters, -filters]).T)


def weighted_cross_entropy(write):
    """Cross entropy with class weights, and focal loss. The loss is the sum over the batch divided by the batch size,
    not by the sum of the weights."""
    batch, classes, smoothing = 6, 5, 0.2
    z, weights = draw(batch, classes) * 3, torch.rand(classes).float().double()
    # The labels have probabilities near 1 and near 0.
    z[0], z[1] = torch.tensor([25.0, 0, 0, -3, 1]), torch.tensor([0.0, 30, -30, 2, 1])
    labels = torch.tensor([0, 2, 1, 4, 3, 1])
    hard = F.one_hot(labels, classes).double()
    smooth = (1 - smoothing) * hard + smoothing / classes
    write("weighted_loss/z", z)
    write("weighted_loss/weights", weights)
    write("weighted_loss/labels", labels)

    def focal(gamma, w, target):
        def loss(z):
            log_p = z.log_softmax(1)
            return -(w * target * (-torch.expm1(log_p)) ** gamma * log_p).sum() / batch
        return loss

    losses = {
        "weights": lambda z: F.cross_entropy(z, labels, weights, reduction="sum") / batch,
        # If the targets are probabilities, PyTorch divides by the batch size, as Carillon does.
        "weights_smooth": lambda z: F.cross_entropy(z, smooth, weights),
        "focal_half": focal(0.5, 1, hard),
        "focal": focal(2, 1, hard),
        "focal_weights": focal(2, weights, hard),
        "focal_smooth": focal(1.5, weights, smooth),
    }
    for name, loss_of in losses.items():
        x = z.clone().requires_grad_()
        loss = loss_of(x)
        loss.backward()
        write(f"weighted_loss/{name}/loss", loss)
        write(f"weighted_loss/{name}/dz", x.grad)


def layer_norm(write):
    """A layer norm of images over their channels."""
    channels = 21
    norm = torch.nn.LayerNorm(channels, eps=1e-6)
    norm.weight.data, norm.bias.data = draw(channels), draw(channels)
    x = (draw(4, 3, 2, channels) * 2 + 3).float().double().requires_grad_()
    y = norm(x)
    dy = draw(*y.shape)
    y.backward(dy)
    for name, values in (("gamma", norm.weight), ("beta", norm.bias), ("x", x), ("y", y), ("dy", dy), ("dx", x.grad),
                         ("dgamma", norm.weight.grad), ("dbeta", norm.bias.grad)):
        write(f"layer_norm/{name}", values)


def attention(write):
    """The part of timm's Attention between the linear layers qkv and proj."""
    batch, tokens, heads, head_size = 2, 5, 3, 4
    qkv = (1.5 * draw(batch, tokens, 3 * heads * head_size)).float().double().requires_grad_()
    q, k, v = qkv.reshape(batch, tokens, 3, heads, head_size).permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, heads * head_size)
    dy = draw(*y.shape)
    y.backward(dy)
    for what, values in (("qkv", qkv), ("y", y), ("dy", dy), ("dqkv", qkv.grad)):
        write(f"attention/{what}", values)


def main():
    with open(sys.argv[1], "w") as file:
        def write(name, values):
            file.write(" ".join([name] + [f"{v:.12g}" for v in values.detach().reshape(-1).tolist()]) + "\n")
        batch_norm(write)
        activation(write, "gelu", F.gelu)
        activation(write, "silu", F.silu)
        average_pooling(write)
        whitening(write)
        weighted_cross_entropy(write)
        layer_norm(write)
        attention(write)
        depthwise_convolution(write)


if __name__ == "__main__":
    main()
