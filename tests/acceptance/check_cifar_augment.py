"""The distortion of a CIFAR-10 image depends only on the seed and on the image's position in the sample stream.

The learning rate is too small to change any variable. Therefore the loss of a step depends only on the step's distorted
images, and equal losses mean equal images.
"""

import programs
from programs import Result, checkpoint

STILL = ("--learning-rate", 1e-30, "--log-every", 1)
GLOBAL_BATCH = 32
LIMIT = 1e-5  # limit of relative differences of losses; the rounding of the loss depends on the number of ranks
APART = 1e-3  # if the images differ, the losses of at least one step have a larger relative difference than this


def check(context):
    """CIFAR-10 distortions"""
    steps = 8 if context.quick else 40
    data = context.small_cifar10_set(100) / "train-*.tfrecord"
    learnt = context.directory("learnt")
    options = ("--batch-size", GLOBAL_BATCH, "--learning-rate", 0.05, "--max-steps", 40)
    context.train(*options, program="cifar10_train", data=data, train_dir=learnt)
    still = (*STILL, "--init-from", checkpoint(learnt, 40))

    def losses(*more, ranks=0, train_dir=None, max_steps=steps):
        train_dir = train_dir or context.directory("augment")
        batch = GLOBAL_BATCH // max(ranks, 1)
        context.train(
            *still, "--batch-size", batch, "--max-steps", max_steps, *more,
            program="cifar10_train", data=data, train_dir=train_dir, ranks=ranks,
        )  # fmt: skip
        found = programs.losses(train_dir)
        return [found[step] for step in range(max_steps)]

    one = losses()
    for ranks in (2, 4):
        yield _same(f"at {ranks} ranks as at 1", one, losses(ranks=ranks))
    resumed = context.directory("resumed")
    losses(train_dir=resumed, max_steps=steps // 2)
    yield _same("after a resume at 2 ranks", one, losses(train_dir=resumed, ranks=2))
    yield _same("read ahead of use, not cached", one, losses("--cache", "none"))
    yield _other("another seed", losses("--seed", 7, "--shuffle=false"), losses("--shuffle=false"))
    yield _other("no distortion", losses("--distort=false"), one)


def _difference(first, second):
    return max(abs(a - b) / abs(b) for a, b in zip(first, second))


def _same(title, expected, found):
    difference = _difference(found, expected)
    return Result(f"augment: the same images {title}", difference <= LIMIT, f"{len(found)} losses to {difference:.1e}")


def _other(title, found, base):
    difference = _difference(found, base)
    return Result(f"augment: {title}, other images", difference >= APART, f"losses differ by up to {difference:.1e}")


if __name__ == "__main__":
    programs.main(check)
