"""Compares the GPU tower with the CPU tower. Also compares GPU runs with each other: with captured or launched steps,
with one rank or several ranks on the GPU, with a run that moves between devices, and in reduced precision.

All runs of a data set start from one checkpoint. They train 60 steps of MNIST (scaled pixels, shuffled) or 12 steps of
CIFAR-10 without distortion, with a seed that avoids ties (check_cifar_parity.py). A distance between two results is
divided by the distance of the CPU tower's result to the initial checkpoint. Needs one GPU, and PyTorch to choose the
seed.

  tests/acceptance/check_gpu_parity.py --bin build/bin --data DIRECTORY_OF_MNIST --cifar10 FOLDER_OR_ARCHIVE
"""

from dataclasses import dataclass

import check_cifar_parity
import programs
import reference_training
from check_cifar_augment import STILL
from programs import SCALED, Result, checkpoint, load, relative_error, same_bits

LIMIT = 1e-3
# In comparison, a training with another order of samples has the distance 0.16. check_gpu_accuracy.py checks the final
# accuracy.
REDUCED_LIMITS = {"tf32": 0.02, "bf16": 0.1}
# Largest relative error of a loss if the distorted images are equal. A different crop changes some losses by 1e-3
# (check_cifar_augment.py).
IMAGES_LIMIT = 1e-4
LONG = 210  # steps: enough for several captured blocks of steps and several log lines
CUDA = ("--device", "cuda")
CPU = ("--device", "cpu")


@dataclass(frozen=True)
class Case:
    """A network, and how it is trained."""

    name: str
    trainer: str
    evaluator: str
    patterns: list  # paths of the training records
    test: object  # pattern of the test records
    options: tuple
    global_batch: int
    steps: int
    initial: object  # path of the initial checkpoint


def check(context):
    """GPU tower against CPU tower"""
    yield from _compare(context, _mnist(context))
    case = _cifar10(context)
    if not case:
        yield Result("gpu: CIFAR-10", False, "no PyTorch, or no seed that avoids ties")
        return
    yield from _compare(context, case)
    yield from _same_images(context, case)


def _mnist(context):
    data = context.small_set(5000)
    first = context.directory("initial")
    context.train("--max-steps", 0, data=data / "train-*", train_dir=first, device="cpu")
    return Case(
        name="MNIST", trainer="mnist_train", evaluator="mnist_eval", patterns=[data / "train-*"], test=data / "test-*",
        options=SCALED, global_batch=96, steps=60, initial=checkpoint(first, 0),
    )  # fmt: skip


def _cifar10(context):
    try:
        import reference_cifar10 as reference
    except ImportError:
        return None
    data = context.small_cifar10_set(100)
    paths = sorted(data.glob("train-*.tfrecord"))
    recipe = reference.Recipe(batch_size=check_cifar_parity.GLOBAL_BATCH, **check_cifar_parity.SCHEDULE)
    direct = check_cifar_parity.METHODS[0]  # direct, because cuDNN does not use Winograd's method here
    seed, initial = check_cifar_parity.comparable(context, reference, recipe, paths, direct)
    settings = [word for word in reference_training.as_options(recipe) if "batch-size" not in word]
    return seed and Case(
        name="CIFAR-10", trainer="cifar10_train", evaluator="cifar10_eval", patterns=paths, test=data / "test-*",
        options=("--distort=false", "--shuffle=false", "--convolution", direct.name, *settings),
        global_batch=recipe.batch_size, steps=direct.steps, initial=initial,
    )  # fmt: skip


def _train(context, case, *options, ranks=0, steps=None, train_dir=None, log_every=None):
    """Trains on the device that the options name; returns the train directory.

    Log lines and summaries are off, so that the host enqueues many steps at a time, as in a long run.
    """
    train_dir = train_dir or context.directory("gpu")
    start = () if train_dir.exists() else ("--init-from", case.initial)
    context.run(
        case.trainer, "--data", *case.patterns, "--train-dir", train_dir, *start, *case.options,
        "--batch-size", case.global_batch // max(ranks, 1), "--max-steps", steps or case.steps,
        "--log-every", log_every or case.steps, "--summary-every", 0, *options, ranks=ranks, timeout=300,
    )  # fmt: skip
    return train_dir


def _distance(found, expected, initial):
    """Returns the largest error of a variable or moving average, relative to its change since the initial
    checkpoint."""
    a, b, start = load(found), load(expected), load(initial)
    names = [name for name in b if name.startswith(("variables/", "moving_averages/"))]
    return programs.worst(
        relative_error(a[name], b[name], start["variables/" + name.partition("/")[2]]) for name in names
    )


def _compare(context, case):
    def end(*options, **keywords):
        return checkpoint(_train(context, case, *options, **keywords), case.steps)

    def near(title, found, limit=LIMIT):
        distance = _distance(found, cpu, case.initial)
        return Result(f"gpu: {case.name}, {title}", distance <= limit, f"{distance:.1e} of the distance travelled")

    def same(title, found, expected):
        difference = same_bits(found, expected)
        return Result(f"gpu: {case.name}, {title}", not difference, difference or "bit for bit equal")

    cpu = end(*CPU)
    gpu = end(*CUDA)
    yield near(f"{case.steps} steps, fp32, as on the CPU", gpu)
    yield same("two runs", end(*CUDA), gpu)
    yield same("captured equals eager", end(*CUDA, "--cuda-graph=false"), gpu)
    yield same("one rank with NCCL equals one rank without", end(*CUDA, "--comm", "nccl", ranks=1), gpu)
    for ranks in (2, 4):
        shared = end(*CUDA, "--comm", "mpi", ranks=ranks)
        yield near(f"{ranks} towers on one GPU, over MPI", shared)
        yield same(f"{ranks} towers, captured equals eager", end(*CUDA, "--cuda-graph=false", ranks=ranks), shared)
    long = {"steps": LONG, "log_every": 50}
    ends = [
        checkpoint(_train(context, case, *CUDA, f"--cuda-graph={graph}", **long), LONG) for graph in ("true", "false")
    ]
    yield same(f"{LONG} steps, captured equals eager", *ends)
    yield from _moved(context, case, near)
    yield from _reduced(case, end, near, gpu)
    yield _evaluation(context, case, gpu.parent)


def _moved(context, case, near):
    """Checks a run in one train directory that moves from a GPU to a CPU and back."""
    train_dir = context.directory("moved")
    for part, device in enumerate((CUDA, CPU, CUDA), start=1):
        _train(context, case, *device, steps=case.steps * part // 3, train_dir=train_dir, log_every=1)
    yield near("moved to the CPU and back", checkpoint(train_dir, case.steps))
    logged = [line["step"] for line in programs.metrics(train_dir)]
    yield Result(f"gpu: {case.name}, its log", logged == list(range(case.steps)), f"{len(logged)} steps")


def _reduced(case, end, near, gpu):
    for precision, limit in REDUCED_LIMITS.items():
        found = end(*CUDA, "--precision", precision)
        yield near(precision, found, limit)
        other = bool(same_bits(found, gpu))
        yield Result(f"gpu: {case.name}, {precision} is not fp32", other, "other bits" if other else "the same bits")


def _evaluation(context, case, train_dir):
    found = [
        context.run(case.evaluator, "--data", case.test, "--checkpoint", train_dir, *device).output
        for device in (CUDA, CPU)
    ]
    line = found[0].strip().splitlines()[-1]
    return Result(f"gpu: {case.name}, evaluated as on the CPU", found[0] == found[1], line)


def _same_images(context, case):
    """Checks that CPU and GPU distort images equally (crop, flip, brightness and contrast). The learning rate is too
    small to change a variable, so the loss of a step depends only on the images of the step."""
    learnt = context.directory("learnt")
    batch = ("--batch-size", case.global_batch)
    context.train(
        *batch, "--learning-rate", 0.05, "--max-steps", 40,
        program=case.trainer, data=case.patterns, train_dir=learnt, device="cpu",
    )  # fmt: skip
    losses = []
    for device in ("cuda", "cpu"):
        run = context.directory("images")
        context.train(
            *STILL, *batch, "--init-from", checkpoint(learnt, 40), "--max-steps", 40,
            program=case.trainer, data=case.patterns, train_dir=run, device=device,
        )  # fmt: skip
        losses.append(programs.losses(run))
    error = programs.worst(abs(losses[0][step] / loss - 1) for step, loss in losses[1].items())
    yield Result("gpu: CIFAR-10, distorted as on the CPU", error <= IMAGES_LIMIT, f"40 losses to {error:.1e}")


if __name__ == "__main__":
    programs.main(check)
