"""Trains a network from an ONNX file. Checks equal bits at 1, 2 and 4 ranks, resuming without the file, evaluation and
export, and files that are refused."""

import programs
from bad_input import DATA, NO_INPUT, USAGE
from programs import SCALED, Result, checkpoint, same_bits

BATCHES = ("--global-batch", 96, "--micro-batch", 12, "--shuffle", "true", "--summary-every", 0, "--log-every", 1)
STEPS = 6


def check(context):
    """ONNX files"""
    data = context.small_set(1000)
    start, file = context.directory("onnx-start"), context.directory("network").with_suffix(".onnx")
    context.train(*SCALED, "--model", "lenet", "--max-steps", 2, data=data / "train-*", train_dir=start)
    context.run("checkpoint_tool", "export", "--onnx", file, start)

    def train(steps, *options, ranks=0, directory=None, expect=0):
        directory = directory or context.directory("onnx-run")
        done = context.train("--model", file, *BATCHES, "--max-steps", steps, *options, data=data / "train-*",
                             train_dir=directory, ranks=ranks, expect=expect)  # fmt: skip
        return directory, done

    whole, _ = train(STEPS)
    for ranks in (2, 4):
        other, _ = train(STEPS, ranks=ranks)
        differs = same_bits(checkpoint(whole, STEPS), checkpoint(other, STEPS))
        yield Result(f"ONNX files: {ranks} ranks give the bits of one", not differs, differs)
    drawn, _ = train(0, "--fresh-weights")
    loaded, _ = train(0)
    differs = same_bits(checkpoint(drawn, 0), checkpoint(loaded, 0))
    yield Result("ONNX files: --fresh-weights draws other values", bool(differs), "the values are equal")
    half, _ = train(STEPS // 2)
    _, wrong = train(STEPS, "--head", "no_such_layer", expect=None)
    yield Result("ONNX files: a wrong --head lists layers", not wrong.complaint(USAGE, ("--head no_such_layer", "its last layers are")), wrong.errors)
    file.rename(file.with_suffix(".moved"))
    train(STEPS, directory=half)
    differs = same_bits(checkpoint(whole, STEPS), checkpoint(half, STEPS))
    yield Result("ONNX files: a training continues without its file, with equal bits", not differs, differs)
    evaluated = context.run("mnist_eval", "--data", data / "test-*", "--checkpoint", half)
    yield Result("ONNX files: a checkpoint is evaluated without the file", "precision @ 1" in evaluated.output, evaluated.output)
    again = context.directory("again").with_suffix(".onnx")
    context.run("checkpoint_tool", "export", "--onnx", again, half)
    yield Result("ONNX files: a checkpoint is exported again", again.stat().st_size > 1e6, "")
    _, missing = train(STEPS, expect=None)
    yield Result("ONNX files: a missing file is named", not missing.complaint(NO_INPUT, (str(file),)), missing.errors)
    file.write_bytes(again.read_bytes()[:1000])
    _, damaged = train(STEPS, expect=None)
    yield Result("ONNX files: a damaged file is refused", not damaged.complaint(DATA, (str(file), "is not an ONNX model")), damaged.errors)


if __name__ == "__main__":
    programs.main(check)
