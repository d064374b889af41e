"""Tests the start of a run: --init-from, resuming or starting afresh, options from the command line, files and the
environment, and ranks with different data."""

import json
import shutil

import h5py

import programs
from bad_input import DATA, IO, NO_INPUT, USAGE
from processes import changes, content, each_in
from programs import SCALED, Result, checkpoint, load
from tfrecords import example, parse_example, read_records, write_records

SMALL = (*SCALED, "--batch-size", 20, "--summary-every", 0)
WARNING = "warning: "
ISAS = ("plain", "avx2", "avx512")


def check(context):
    """beginnings"""
    data = context.small_set(400)
    for case in (
        _initial_variables,
        _other_model,
        _other_data,
        _changed_options,
        _changed_arithmetic,
        _unreadable_checkpoint,
        _stale_temporaries,
        _fresh,
        _never,
        _config,
        _not_utf8,
    ):
        yield from case(context, data)


def _result(title, wrong, detail=""):
    return Result(f"start: {title}", not wrong, wrong or detail)


def _refused(title, done, code, names, wrong=""):
    return _result(title, done.complaint(code, names) or wrong, done.lines[0] if done.lines else "")


def _train(context, data, run, *options, common=SMALL, **keywords):
    return context.train(*common, *options, data=data / "train-*", train_dir=run, **keywords)


def _trained(context, data, steps, *options):
    """Trains. Returns a train directory with checkpoints of step steps/2 and step `steps`."""
    run = context.directory("trained")
    _train(context, data, run, "--max-steps", steps, "--checkpoint-every", steps // 2, *options)
    return run


def _initial_variables(context, data):
    """--init-from must read the variables, and must also use them as the initial values of the moving averages."""
    source = load(checkpoint(_trained(context, data, 20), 20))
    apart = all(
        array.tobytes() != source[name.replace("variables", "moving_averages")].tobytes()
        for name, array in source.items()
        if name.startswith("variables")
    )
    yield Result("start: averages and variables of a trained checkpoint differ", apart, "a precondition of the next check")
    for ranks in (0, 2):
        run = context.directory("initial")
        origin = checkpoint(_trained(context, data, 20), 20)
        _train(context, data, run, "--init-from", origin, "--max-steps", 0, ranks=ranks)
        found = load(checkpoint(run, 0))
        wrong = [
            name for name in found if found[name].tobytes() != source[f"variables/{name.split('/', 1)[1]}"].tobytes()
        ]
        title = f"--init-from: variables and averages equal the variables, {ranks or 1} ranks"
        yield _result(title, ", ".join(wrong), f"{len(found)} arrays")


def _other_model(context, data):
    """If the checkpoint belongs to another model, every program must report this."""
    run = _trained(context, data, 2, "--model", "lenet")
    before = content(run)
    done = _train(context, data, run, "--max-steps", 4, expect=None)
    yield _refused("resuming another model", done, DATA, ["model.ckpt-2.h5", "lenet"], changes(run, before))
    other = context.directory("other")
    done = _train(context, data, other, "--init-from", checkpoint(run, 2), "--max-steps", 4, expect=None)
    left = ", ".join(path.name for path in programs.checkpoints(other))
    yield _refused("--init-from another model", done, DATA, ["model.ckpt-2.h5", "lenet"], left)
    images = context.directory("images")
    records = context.small_cifar10_set(2) / "train-*"
    context.train("--max-steps", 0, program="cifar10_train", data=records, train_dir=images)
    larger = ("--model", "resnet18_cifar", "--optimizer", "adamw", "--batch-size", 1, "--max-steps", 4)
    large = context.directory("large")
    context.train(*larger, program="cifar10_train", data=records, train_dir=large)
    run = _trained(context, data, 2)
    checkpoint(run, 4).write_bytes(checkpoint(large, 4).read_bytes())
    before = content(run)
    done = _train(context, data, run, "--max-steps", 6, expect=None)
    names, title = ["model.ckpt-4.h5", "'resnet18_cifar'", "'mnist'"], "resuming a larger model; no older one replaces it"
    yield _refused(title, done, DATA, names, changes(run, before))
    done = context.run("mnist_eval", "--data", data / "test-*", "--checkpoint", images, expect=None)
    yield _refused("mnist_eval of a network for CIFAR-10", done, DATA, ["model.ckpt-0.h5", "'image'"])
    done = context.run("mnist_eval", "--data", data / "test-*", "--checkpoint", large, expect=None)
    yield _refused("mnist_eval of a larger network", done, DATA, ["model.ckpt-4.h5", "'image'"])


def _other_data(context, data):
    """If the ranks have files with equal names and sizes, but with different records, the run must end."""
    folders = [context.directory("rank"), context.directory("rank")]
    (source,) = data.glob("train-*")
    samples = [parse_example(record, ("image_raw", "label")) for record in read_records(source)]
    for turn, folder in enumerate(folders):
        folder.mkdir()
        turned = [sample | {"label": [(sample["label"][0] + turn) % 10]} for sample in samples]
        write_records(folder / "records", map(example, turned))
    for option, others in (("--data", ("--eval-data", source)), ("--eval-data", ("--data", source))):
        run = context.directory("disagree")
        fixed = (option, "records", *others, "--train-dir", run, "--device", "cpu", *SMALL, "--max-steps", 4)
        done = each_in(context, folders, "mnist_train", *fixed)
        left = ", ".join(path.name for path in programs.checkpoints(run))
        kind = "evaluation" if option == "--eval-data" else "training"
        yield _refused(f"ranks with different records in {option}", done, USAGE, ["rank", kind], left)


def _changed_options(context, data):
    """A resumed run must warn if options, records or the number of ranks have changed, and must warn about nothing
    else."""
    run = _trained(context, data, 4)
    done = _train(context, data, run, "--max-steps", 6, "--log-every", 3, "--keep-checkpoints", 2)
    yield _result("resuming with the same options warns of nothing", " | ".join(done.lines), "no line on stderr")
    other = (*SCALED[:2], *SCALED[4:], "--learning-rate", "0.25", "--batch-size", 10, "--summary-every", 0)
    done = _train(context, data, run, "--max-steps", 8, common=other, ranks=2)
    warnings = [line for line in done.lines if line.startswith(WARNING)]
    changed = (("--batch-size", "20", "10"), ("--learning-rate", "0.1", "0.25"), ("number of ranks", "1", "2"))
    for name, before, after in changed:
        told = [line for line in warnings if name in line and before in line.split() and after in line.split()]
        yield _result(f"resuming warns of a changed {name}", "" if told else f"{done.lines}", "; ".join(told))
    done = _train(context, context.small_set(300), run, "--max-steps", 10, common=other, ranks=2)
    told = [line for line in done.lines if line.startswith(WARNING) and "records" in line and "400" in line]
    yield _result("resuming warns of changed records", "" if told else f"{done.lines}", "; ".join(told))


def _changed_arithmetic(context, data):
    """A checkpoint must record the values that `auto` selected. If a run resumes with other values, it must warn in one
    line."""
    run = context.directory("arithmetic")

    def train(last, *options):
        return _train(context, data, run, "--model", "lenet", "--max-steps", last, *options, device="cpu").lines

    train(1)
    with h5py.File(checkpoint(run, 1)) as file:
        held = json.loads(file.attrs["options"])
    found = {name: held.get(name) for name in ("isa", "instruction set", "convolution", "winograd convolutions")}
    good = found["isa"] == found["convolution"] == "auto" and found["instruction set"] in ISAS
    good = good and found["winograd convolutions"] == ["conv2"]
    yield _result("a checkpoint records the values that auto selected", "" if good else f"{found}", f"{found}")
    highest = found["instruction set"]
    lines = train(2, "--isa", highest)
    yield _result("resuming with the values that auto selected warns of nothing", " | ".join(lines))
    lines = train(3, "--isa", "plain")
    expected = [] if highest == "plain" else [f'{WARNING}instruction set was "{highest}"']
    good = len(lines) == len(expected) and all(map(str.startswith, lines, expected))
    yield _result("resuming warns of a changed instruction set", "" if good else f"{lines}", " | ".join(lines))
    lines = train(4, "--isa", "plain", "--convolution", "direct")
    good = len(lines) == 1 and lines[0].startswith(f'{WARNING}winograd convolutions was ["conv2"]')
    yield _result("resuming warns of changed convolutions", "" if good else f"{lines}", " | ".join(lines))


def _unreadable_checkpoint(context, data):
    """If the newest checkpoint cannot be read, the run must end. The run may use an older checkpoint only if the
    content of the newest checkpoint is damaged."""
    run = _trained(context, data, 4)
    checkpoint(run, 4).unlink()
    checkpoint(run, 4).symlink_to("/proc/self/mem")  # this file can be opened, but not read
    done = _train(context, data, run, "--max-steps", 6, expect=None)
    left = "" if not checkpoint(run, 6).exists() else "it did not end"
    yield _refused("the newest checkpoint cannot be read", done, IO, ["model.ckpt-4.h5"], left)


def _stale_temporaries(context, data):
    """A run must remove the temporary files of killed writers, and must keep all other files."""
    run = context.directory("stale")
    run.mkdir()
    stale = ["model.ckpt-7.h5.12345.tmp", "metrics.jsonl.678.tmp"]
    others = ["notes.tmp", "model.ckpt-7.h5.old.tmp", "thesis.12345.tmp"]
    for name in (*stale, *others):
        (run / name).write_text("half a file")
    _train(context, data, run, "--max-steps", 2)
    left = {path.name for path in run.iterdir()}
    wrong = [f"{name} stayed" for name in stale if name in left]
    wrong += [f"{name} went" for name in others if name not in left]
    yield _result("stale temporaries are removed", "; ".join(wrong), ", ".join(stale))


def _fresh(context, data):
    """--fresh must remove metrics.jsonl, the event files, and checkpoints of later steps."""
    run = _trained(context, data, 20)
    (run / "events.txt").write_text("mine")
    old = set(content(run)) - {"events.txt", "metrics.jsonl"}
    _train(context, data, run, "--max-steps", 3, "--log-every", 1, "--fresh")
    found = set(content(run))
    wrong = sorted(old & found) + sorted({"events.txt"} - found)
    yield _result("--fresh removes checkpoints and event files", ", ".join(wrong), f"{len(old)} gone")
    steps = [line["step"] for line in programs.metrics(run)]
    yield _result("--fresh starts a new metrics.jsonl", "" if steps == [0, 1, 2] else f"{steps}", f"{steps}")


def _never(context, data):
    """--resume never"""
    run = _trained(context, data, 4)
    before = content(run)
    done = _train(context, data, run, "--max-steps", 6, "--resume", "never", expect=None)
    wrong = changes(run, before)
    yield _refused("--resume never in a trained directory", done, USAGE, ["--resume", "model.ckpt"], wrong)
    empty = context.directory("empty")
    _train(context, data, empty, "--max-steps", 2, "--resume", "never")
    yield _result("--resume never in an empty directory", "" if checkpoint(empty, 2).exists() else "no checkpoint")


def _config(context, data):
    """CARILLON_CONFIG names an option file. The command line and --config override the options in this file. The
    options in this file override the environment variables CARILLON_<OPTION>."""
    recipe, other = context.directory("recipe"), context.directory("recipe")
    recipe.write_text("max-steps = 3\nbatch-size = 30  # not 20\n")
    other.write_text("max-steps = 4\n")

    def steps(*options, **environment):
        """Trains with these environment variables. Returns the step of the checkpoint that the run writes."""
        run = context.directory("configured")
        fixed = ("--data", data / "train-*", "--train-dir", run, "--device", "cpu", "--summary-every", 0)
        given = [f"CARILLON_{name}={value}" for name, value in environment.items()]
        done = context.run_command(["env", *given, *context.command("mnist_train", *fixed, *options)])
        found = [path.name for path in programs.checkpoints(run)]
        return found, done

    for title, expected, (found, done) in (
        ("CARILLON_CONFIG is read", 3, steps(CONFIG=recipe)),
        ("the command line overrides CARILLON_CONFIG", 2, steps("--max-steps", 2, CONFIG=recipe)),
        ("--config overrides CARILLON_CONFIG", 4, steps("--config", other, CONFIG=recipe)),
        ("CARILLON_CONFIG overrides CARILLON_MAX_STEPS", 3, steps(CONFIG=recipe, MAX_STEPS=5)),
        ("CARILLON_MAX_STEPS is read", 5, steps(MAX_STEPS=5)),
    ):
        good = found == [f"model.ckpt-{expected}.h5"]
        yield _result(title, "" if good else f"{found}, {done.explain()}", f"{expected} steps")
        if title.endswith("CONFIG is read"):
            batch = "global batch 30" in done.output
            yield _result(f"{title}: each of its options", "" if batch else done.output[:200], "a batch of 30")


def _not_utf8(context, data):
    """Uses paths that are not valid UTF-8: to train, to resume with another number of ranks, and to evaluate."""
    folder = context.directory("latin1-\udce9")  # \\udce9: the single byte e9
    shutil.copytree(data, folder)
    run = folder / "run"
    _train(context, folder, run, "--max-steps", 2)
    done = _train(context, folder, run, "--max-steps", 4, ranks=2)
    told = "latin1-\\xe9" in done.output
    yield _result("paths that are not UTF-8 work and are printed in ASCII", "" if told else done.output[-200:])
    done = context.run("mnist_eval", "--data", folder / "test-*", "--checkpoint", run, expect=None)
    yield _result("mnist_eval of paths that are not UTF-8", done.complaint(0))
    done = context.run("mnist_eval", "--data", folder / "no-\udce9", "--checkpoint", run, expect=None)
    yield _refused("a missing path that is not UTF-8", done, NO_INPUT, ["no-\\xe9"])


if __name__ == "__main__":
    programs.main(check)
