"""PyTorch's GPU process of gpu_vs_pytorch.py for CIFAR-10: the training of torch_cifar_worker.py in torch_gpu_loop.py's
loop.

The step distorts the images on the GPU. The layout is channels_last. LRN is a banded 1x1 convolution with a
hand-written backward pass. In compiled steps, LRN is a sum of nine slices, which the compiler fuses into one kernel.
"""

import torch_cifar_worker
import torch_gpu_loop


def task(options, form):
    options.layout = "channels_last"
    options.lrn = "slices" if "compiled" in form else "function"
    return torch_cifar_worker.task(options, options.device)


if __name__ == "__main__":
    torch_gpu_loop.serve(task, torch_gpu_loop.arguments(__doc__).parse_args())
