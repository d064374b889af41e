"""Shared by PyTorch's GPU processes of gpu_vs_pytorch.py: the training step, the forms in which it runs, and a process
that measures on request.

A step: gather a shuffled batch on the GPU, loss, backward, fused SGD with weight decay (the gradient of the L2 terms)
and a learning rate that decays every step, moving averages of all parameters. The data set is in GPU memory as uint8.

Forms: "eager"; "compiled" (torch.compile, max-autotune: forward and backward as separate CUDA graphs); "graph" (the whole
step captured in a CUDA graph); "compiled graph" (a compiled step captured in a CUDA graph). A graph contains `steps` steps.

The process reads requests from standard input, one JSON object per line (form, steps, precision, seconds). It answers each
with one line: examples_per_second and peak_bytes, or error. It creates a training at its first request and keeps it.

Precision "bf16" is autocast. "bf16 weights" also keeps weights, gradients and momentum in bf16, for networks only.

With --lock, several processes take turns on the GPU: each holds the file's lock while it computes, releases it while it
compiles, and keeps no training.
"""

import argparse
import fcntl
import gc
import json
import os
import pathlib
import resource
import sys
import time

import torch


DECAY = 0.99999  # factor by which each step multiplies the learning rate


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=pathlib.Path, help="unless the images are noise")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--device", default="cuda", help="device; cpu: only to test the eager and compiled forms")
    parser.add_argument("--quick-compile", action="store_true", help="compile without max-autotune")
    parser.add_argument("--lock", type=pathlib.Path, help="file to lock while the GPU computes; implies --quick-compile")
    return parser


class GpuLock:
    def __init__(self, path):
        self.file = path.open("a")

    def acquire(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self):
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def backend(self, module, inputs):
        """Calls torch.compile's default backend. Releases the lock while the backend compiles a graph."""
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner

        def inner(*arguments, **options):
            self.release()
            try:
                return compile_fx_inner(*arguments, **options)
            finally:
                self.acquire()

        return compile_fx(module, inputs, inner_compile=inner)


class Training:
    """One training: the variables, the optimizer and the captured steps of a form and a precision. task: a
    torch_loop.Task with tensors on the device."""

    def __init__(self, task, device, batch, quick_compile, lock, form, steps, precision):
        self.task, self.device, self.batch_size, self.steps, self.precision = task, device, batch, steps, precision
        self.set_precision()
        self.parameters = list(task.network.parameters())
        self.averages = [value.detach().clone() for value in self.parameters]
        self.rate = torch.tensor(task.learning_rate, device=device)
        self.optimizer = task.optimizer(task.groups, lr=self.rate, fused=True)
        self.order, self.position = None, task.count
        self.loss = lambda index: task.loss(task.network, *task.batch(index))
        if precision == "bf16 weights":
            task.network.to(torch.bfloat16)

            def loss(index):
                images, labels = task.batch(index)
                return task.loss(task.network, images.to(torch.bfloat16), labels)

            self.loss = loss
        if lock and "compiled" not in form:
            lock.acquire()
        if lock and "compiled" in form:
            self.loss = torch.compile(self.loss, backend=lock.backend, dynamic=False)
        elif "compiled" in form:
            mode = "max-autotune-no-cudagraphs" if "graph" in form else "max-autotune"
            if quick_compile:
                mode = "default" if "graph" in form else "reduce-overhead"
            self.loss = torch.compile(self.loss, mode=mode, dynamic=False)
        self.graph = None
        if "graph" in form:
            self._capture()

    def set_precision(self):
        """Sets the precision of this training for the process. Captured and compiled steps keep the precision with
        which they were made; eager steps use the current precision of the process."""
        torch.set_float32_matmul_precision("highest" if self.precision == "fp32" else "high")
        torch.backends.cudnn.allow_tf32 = self.precision != "fp32"
        torch.backends.cudnn.benchmark = True

    def next_indices(self, steps):
        """Returns [steps, batch] indices of the shuffled stream."""
        count = steps * self.batch_size
        if self.position + count > self.task.count:
            epochs = -(-count // self.task.count)
            orders = [torch.randperm(self.task.count, device=self.device) for _ in range(epochs)]
            self.order, self.position = torch.cat(orders), 0
        self.position += count
        return self.order[self.position - count : self.position].view(steps, self.batch_size)

    def step(self, index):
        bf16 = self.precision == "bf16"
        with torch.autocast(self.device, torch.bfloat16, enabled=bf16, cache_enabled=False):
            loss = self.loss(index)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            if self.task.averages_decay is not None:
                torch._foreach_lerp_(self.averages, self.parameters, 1 - self.task.averages_decay)
            self.rate.mul_(DECAY)
        return loss.detach()

    def _capture(self):
        self.indices = self.next_indices(self.steps).clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self.step(self.indices[0])
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for index in self.indices:
                self.last_loss = self.step(index)

    def advance(self):
        """Runs `steps` training steps (one graph, if the steps are captured)."""
        indices = self.next_indices(self.steps)
        if self.graph:
            self.indices.copy_(indices)
            self.graph.replay()
        else:
            for index in indices:
                self.last_loss = self.step(index)

    def examples_per_second(self, seconds):
        self.set_precision()
        warm_up = max(3, 30 // self.steps)
        self._time(warm_up)
        count = max(warm_up, int(seconds * warm_up / self._time(warm_up)))
        rate = count * self.steps * self.batch_size / self._time(count)
        if not torch.isfinite(self.last_loss):
            raise ValueError(f"the loss is {float(self.last_loss)}")
        return rate

    def _time(self, count):
        """Returns how many seconds `count` calls of advance take."""
        self._synchronize()
        started = time.perf_counter()
        for _ in range(count):
            self.advance()
        self._synchronize()
        return time.perf_counter() - started

    def _synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


def serve(make_task, options):
    """Answers requests. make_task: a function from (options, form) to a torch_loop.Task on options.device."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the compiler prints to stdout
    torch.manual_seed(0)
    trainings = {}
    lock = options.lock and GpuLock(options.lock)
    for line in sys.stdin:
        request = json.loads(line)
        seconds = request.pop("seconds")
        key = tuple(request.values())
        try:
            if key not in trainings:
                trainings[key] = None
                made = make_task(options, request["form"])
                trainings[key] = Training(made, options.device, options.batch, options.quick_compile, lock, **request)
            if trainings[key] is None:
                raise RuntimeError("failed before")
            rate = trainings[key].examples_per_second(seconds)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            answer = {"examples_per_second": rate, "peak_bytes": peak}
        except Exception as error:  # continue, so that the other forms are measured
            answer = {"error": f"{type(error).__name__}: {error}"}
        if lock:
            trainings.clear()
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()
            lock.release()
        print(json.dumps(answer), file=answers, flush=True)
