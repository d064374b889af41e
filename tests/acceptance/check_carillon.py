"""The program carillon: `carillon train` from a folder of pictures to an evaluated network, the other commands, and
signals at different moments of a training."""

import json
import re
import shlex
import signal
import time

import numpy as np

import programs
from bad_input import DATA, NO_INPUT, STOPPED, USAGE
from png import png
from processes import changes, content, wait_for
from programs import ProgramFailed, Result, checkpoints

STEPS = 60
QUICK = ("--model", "airbench94", "--image-size", 16, "--log-every", 1, "--max-steps", STEPS)
PICTURES = 40  # number of pictures of each class
SETTLE = 30  # seconds within which the ranks must save their state after `carillon train` was killed


def check(context):
    """carillon"""
    for case in (_whole, _targets, _commands, _options, _fresh, _fine_tuning, _failure, _one_class, _unusable, _own_folder, _links, _splits, _changes, _stops, _kill):
        try:
            yield from case(context)
        except ProgramFailed as error:
            yield Result(f"carillon: {case.__doc__}", False, str(error))


def _result(title, wrong, detail=""):
    return Result(f"carillon: {title}", not wrong, str(wrong or detail))


def _pictures(context):
    """Makes a folder of two classes that a network can tell apart: dark and bright noise."""
    folder = context.work / "carillon-pictures"
    if folder.exists():
        return folder
    random = np.random.default_rng(1)
    for name, low in (("dark", 0), ("bright", 128)):
        (folder / name).mkdir(parents=True)
        for i in range(PICTURES):
            (folder / name / f"{i}.png").write_bytes(png(random.integers(low, low + 128, (16, 16, 3), dtype=np.uint8)))
    return folder


def _places(context):
    return context.directory("carillon-run"), context.directory("carillon-data")


def command(context, run, data, *options, pictures=None):
    places = ("--train-dir", run, "--data-dir", data)
    return context.command("carillon", "train", pictures or _pictures(context), *places, *options)


def _accuracy(output):
    found = re.findall(r"^precision @ 1 = ([\d.]+) \(\d+/(\d+)\)$", output, re.M)
    return (float(found[-1][0]), int(found[-1][1])) if found else (0.0, 0)


def _whole(context):
    """a training with a budget"""
    run, data = _places(context)
    # --epochs 0 means the same as no --epochs. The trial run, which measures the speed, evaluates nothing.
    budget = ("--minutes", 0.2, "--epochs", 0, "--image-size", 16, "--test-time-augmentation")
    done = context.run_command(command(context, run, data, *budget))
    accuracy, count = _accuracy(done.output)
    wrong = done.complaint(0) or (count != 8 and f"{count} evaluated")  # the number of steps is not fixed
    plan = json.loads((run / "plan.json").read_text()) if not wrong else {}
    wrong = wrong or (plan["steps"] < 2 or plan["minutes"] != 0.2) and f"the plan is {plan}"
    yield _result("a folder of pictures becomes an evaluated network", wrong, f"accuracy {accuracy} of {count} pictures")
    page = run / "report.html"
    wrong = "" if page.exists() and str(page) in done.output else done.output[-800:]
    yield _result("it writes a page about the evaluation", wrong)
    yield _result("it prints the long commands", "" if "image_train --config" in done.output else done.output)
    again = context.run_command(command(context, run, data, *budget))
    said = all(text in again.output for text in ("is finished; --fresh begins another", "nothing to do"))
    wrong = again.complaint(0) or (not said and again.output)
    yield _result("a finished training is not repeated", wrong)
    yield from _more(context, run, data)


def _more(context, run, data):
    best = int(re.search(r" step (\d+)", context.run("checkpoint_tool", "inspect", run / "best.ckpt.h5").output)[1])
    ended = _newest(run)
    options = ("--image-size", 16, "--more", 0.05)
    before = content(run)
    refused = context.run_command(command(context, run, data, *options, "--micro-batch", 3))
    wrong = refused.complaint(USAGE, ("--micro-batch",)) or changes(run, before)
    yield _result("--more changes nothing if the training is refused", wrong)
    longer = context.run_command(command(context, run, data, *options))
    said = f"trains 0.05 minutes more in {run}, from the best state, step {best}" in longer.output
    wrong = longer.complaint(0) or (not said and longer.output)
    wrong = wrong or (_newest(run) <= best and f"it ended at step {_newest(run)}, after {ended} and {best}")
    yield _result("--more continues a finished training from its best state", wrong, f"from {best} to {_newest(run)}")
    again = context.run_command(command(context, run, data, "--image-size", 16))
    wrong = again.complaint(0) or ("is finished" not in again.output and again.output)
    yield _result("a training that has had more time is finished", wrong)


def _targets(context):
    """labels and numbers"""
    run, data = _places(context)
    lines = [f"{kind}/{i}.png,{value + i / 100}" for kind, value in (("dark", 1), ("bright", 2)) for i in range(PICTURES)]
    targets = context.directory("carillon-targets") / "light.csv"
    targets.parent.mkdir()
    targets.write_text("\n".join(["path,light", *lines]) + "\n")
    done = context.run_command(command(context, run, data, *QUICK, "--targets", targets))
    found = re.findall(r"^R2 = (-?[\d.]+) \(8 records\)$", done.output, re.M)
    wrong = done.complaint(0) or (": 1 number (light)" not in done.output and done.output)
    yield _result("--targets trains numbers", wrong or (not found and done.output), f"R2 {found}")
    targets.write_text(targets.read_text().replace("dark/0.png,1.0", "dark/0.png,1.1"))
    changed = context.run_command(command(context, run, data, *QUICK, "--targets", targets))
    yield _result("other targets do not continue a training", changed.complaint(USAGE, "have changed"))


def _trained(context):
    run, data = context.work / "carillon-trained", context.work / "carillon-trained-data"
    if not run.exists():
        done = context.run_command(command(context, run, data, *QUICK))
        if done.code != 0:
            raise ProgramFailed(done.explain())
    return run, data


def _commands(context):
    """the other commands"""
    run, data = _trained(context)
    onnx = context.directory("network").with_suffix(".onnx")
    for words, expected in (
        (("evaluate", run), r"^precision @ 1 = 1\.000 \(8/8\)$"),
        (("predict", run, _pictures(context) / "dark"), r"^.*/dark/0\.png  dark "),
        (("inspect", run), r"conv1/weights"),
        (("inspect", data), r"image/encoded"),
        (("export", run, "--onnx", onnx), r"^wrote "),
        (("report", run), r"^ +\d+ +\d+ +[\d.]+  dark$"),
        (("doctor", "--train-dir", run), r"^mpirun: "),
        (("--help",), r"carillon train FOLDER"),
        (("mnist_train", "--help"), r"^usage: mnist_train "),
        (("checkpoint_tool", "inspect", run), r"conv1/weights"),
        (("evaluate", "--help"), r"^Usage: carillon evaluate RUN"),
    ):
        done = context.run_command(context.command("carillon", *words))
        wrong = done.complaint(0) or (not re.search(expected, done.output, re.M) and done.output[-500:])
        yield _result(f"{' '.join(word for word in words if isinstance(word, str))} prints its result", wrong)
    pipe = " ".join(map(shlex.quote, map(str, context.command("carillon", "report", run)))) + " | head -n 1; exit ${PIPESTATUS[0]}"
    done = context.run_command(["bash", "-c", pipe])
    wrong = "" if done.code in (0, 141) and len(done.output.splitlines()) == 1 else f"code {done.code}: {done.output[-500:]}"
    yield _result("report ends without a message if its reader closes the pipe", wrong)
    for program in ("mnist_train", "cifar10_train"):
        other = context.directory(program)
        context.train("--batch-size", 4, "--max-steps", 2, data="synthetic", train_dir=other, program=program)
        for words, expected in (
            (("evaluate", other, "--data", "synthetic"), "precision @ 1 = "),
            (("report", other, "--data", "synthetic"), "wrote "),
            (("predict", other, _pictures(context) / "dark" / "0.png"), "0.png  "),
        ):
            done = context.run_command(context.command("carillon", *words))
            wrong = done.complaint(0) or (expected not in done.output and done.output)
            yield _result(f"{words[0]} suits a run of {program}", wrong)
        done = context.run_command(context.command("carillon", "evaluate", other))
        yield _result(f"a run of {program} on noise has no records", done.complaint(USAGE, ("name records with --data",)))
    for words, expected in (
        (("predict", _pictures(context), run), "name the run first"),
        (("train", _pictures(context) / "dark" / "0.png"), "is a file: name the folder"),
        (("export", run, run, "--onnx", onnx), "export takes 1 file, not 2"),
        (("export", "--onnx", onnx, run), "the first word must be RUN"),
        ((), "name a command"),
    ):
        done = context.run_command(context.command("carillon", *words))
        yield _result(f"'{expected}' answers a slip", done.complaint(USAGE, (expected,)))
    before = checkpoints(run)
    for option, value in (("--model", "resnet50"), ("--image-size", 24), ("--eval-image-size", 24)):
        done = context.run_command(command(context, run, data, option, value))
        wrong = done.complaint(USAGE, (option, "--fresh")) or (checkpoints(run) != before and "the checkpoints changed")
        yield _result(f"another {option} than at the start is refused", wrong)
    for option, value in (("--model", "airbench94"), ("--eval-image-size", 16)):  # --eval-image-size 0 means 16
        done = context.run_command(command(context, run, data, option, value))
        yield _result(f"the {option} of the start continues", done.complaint(0))
    done = context.run_command(command(context, run, data, "--fresh", "--max-steps", 2, "--model", "airbench94", "--eval-image-size", 136))
    wrong = done.complaint(USAGE, ("--eval-image-size 136",)) or (checkpoints(run) != before and "the checkpoints changed")
    yield _result("--fresh with an impossible size removes nothing", wrong)


def _options(context):
    """options of image_train"""
    run, data = _places(context)
    words = command(context, run, data, *QUICK[2:], "--model", "resnet9", "--isa", "plain", "--dry-run")
    done = context.finish(context.start(words, {"CARILLON_EVAL_EVERY": "7", "CARILLON_DEVICE": "cpu"}))
    settings = (run / "plan.cfg").read_text() if done.code == 0 else ""
    yield _result("--model overrides the choice", "" if "model = resnet9\n" in settings else done.explain() + settings)
    evaluation = [line for line in done.output.splitlines() if "image_eval" in line and "--isa plain" in line]
    yield _result("--isa reaches the evaluation, too", "" if evaluation else done.explain())
    best = str(run / "best.ckpt.h5") in "".join(evaluation)
    yield _result("the printed evaluation is that of the best checkpoint", "" if best else done.explain())
    run, data = _places(context)
    quick = command(context, run, data, *QUICK, "--eval-image-size", 24)
    done = context.run_command(quick)
    best = (run / "best.ckpt.h5").read_bytes() if done.code == 0 else b""
    again = context.run_command(command(context, run, data))
    wrong = done.complaint(0) or again.complaint(0) or ("" if "nothing to do" in again.output else again.output[-500:])
    wrong = wrong or ("" if (run / "best.ckpt.h5").read_bytes() == best else "the best checkpoint changed")
    yield _result("the --eval-image-size of the start may be omitted", wrong)
    for words, names in (
        (("--no-such-option", 1), ("--no-such-option",)),
        (("--minutes", "soon"), ("--minutes", "soon")),
        (("--minute", 1), ("--minute", "--minutes")),
        (("--image-size", 1), ("--image-size",)),
        (("--data", "data/x"), ("--data",)),
        (("--batch-size", 4), ("--batch-size", "--global-batch")),
        (("--epochs", 1, "--max-steps", 2), ("--epochs", "--max-steps")),
        (("--eval-image-size", 4, "--max-steps", 2), ("--eval-image-size 4",)),
        (("--eval-image-size", 64, "--image-size", 32, "--max-steps", 2, "--model", "vit_tiny_patch4_32"), ("--eval-image-size 64",)),
        (("--model", "vit_tiny_patch16_224", "--image-size", 40, "--max-steps", 2), ("vit_tiny_patch16_224",)),
    ):
        run, data = _places(context)
        done = context.run_command(command(context, run, data, *words))
        wrong = done.complaint(USAGE, names) or ("records exist" if data.exists() else "")
        yield _result(f"{words[0]} {words[1]} is refused", wrong)


def _fresh(context):
    """--fresh"""
    run, data = _places(context)
    first = context.run_command(command(context, run, data, *QUICK[:-1], 3))
    if first.code != 0:
        raise ProgramFailed(first.explain())
    before = content(run)
    for words, names in (
        (("--decay-exclude", "absent/*"), ("absent/*",)),
        (("--micro-batch", 3), ("--micro-batch",)),
        (("--clip-norm", 1, "--init-exclude", "x"), ("--init-exclude",)),
    ):
        done = context.run_command(command(context, run, data, *QUICK[:-1], 2, *words, "--fresh"))
        wrong = done.complaint(USAGE, names) or changes(run, before)
        yield _result(f"--fresh keeps the training if {words[0]} is refused", wrong)
    done = context.run_command(command(context, run, data, *QUICK[:-1], 2, "--seed", 2, "--fresh"))
    found = [path.name for path in checkpoints(run)]
    steps = json.loads((run / "plan.json").read_text())["steps"]
    wrong = done.complaint(0) or (found != ["model.ckpt-2.h5"] and f"{found}") or (steps != 2 and f"the plan has {steps} steps")
    yield _result("--fresh replaces the training and its plan", wrong)
    again = context.run_command(command(context, run, data, *QUICK[:-1], 2, "--seed", 2))
    yield _result("the same command without --fresh finds it finished", again.complaint(0) or ("is finished" not in again.output and again.output))


def _fine_tuning(context):
    """a training from the weights of another"""
    run, data = _places(context)
    base, weights = context.work / "carillon-base", context.work / "base #1.safetensors"
    context.run("image_train", "--model", "resnet18", "--image-size", 32, "--classes", 5, "--data", "synthetic", "--train-dir",
                base, "--max-steps", 0)
    context.run("checkpoint_tool", "export", "--safetensors", weights, base)
    options = ("--image-size", 32, "--max-steps", 2, "--log-every", 1)
    done = context.run_command(command(context, run, data, "--from", weights, *options))
    without = "without the variables of --init-exclude: logits/weights, logits/biases"
    plan = (run / "plan.cfg").read_text()
    wrong = done.complaint(0) or ((without not in done.output or "model = resnet18\n" not in plan) and done.output + plan)
    yield _result("--from starts with the weights of a safetensors file and a new last layer", wrong)
    before = checkpoints(run)
    copy = context.work / "other.safetensors"
    copy.write_bytes(weights.read_bytes())
    for words, name in ((("--from", copy), "another --from"), ((), "no --from")):
        other = context.run_command(command(context, run, data, *words, *options))
        yield _result(f"{name} than at the start is refused", other.complaint(USAGE, ("--from", str(weights))))
    moved = weights.rename(context.work / "moved.safetensors")
    again = context.run_command(command(context, run, data, "--from", weights, *options))
    yield _result("a training continues without the file of --from", again.complaint(0))
    moved.rename(weights)
    same = context.run_command(command(context, run, data, "--from", run, "--fresh", *options))
    wrong = same.complaint(USAGE, ("--from",)) or (checkpoints(run) != before and "the checkpoints are gone")
    yield _result("--from refuses the train directory, which --fresh would remove", wrong)
    other = context.run_command(command(context, run, data, "--from", weights, "--model", "resnet50", "--fresh"))
    wrong = other.complaint(USAGE) or ("are those of resnet18" not in other.output and other.output)
    yield _result("--from refuses weights of another network than --model", wrong)
    copy.write_bytes(weights.read_bytes().replace(b'"bn1.bias"', b'"bn1.biaz"'))
    damaged = context.run_command(command(context, run, data, "--from", copy, "--fresh", *options))
    wrong = damaged.complaint(DATA, ("bn1.biaz",)) or ("measuring the speed" in damaged.output and damaged.output)
    yield _result("unsuitable weights are refused before any work", wrong)


def _failure(context):
    """a training that fails"""
    run, data = _places(context)
    done = context.run_command(command(context, run, data, *QUICK, "--learning-rate", 1e30, "--ranks", 2))
    last = done.errors.strip().splitlines()[-1:]
    wrong = f"expected exit code 70; {done.explain()}" if done.code != 70 else ""
    yield _result("the error line is the last one, after mpirun's", wrong or ("" if last and "diverged" in last[0] else last))


def _one_class(context):
    """a folder of one class"""
    pictures = context.directory("one-class")
    (pictures / "dark").mkdir(parents=True)
    for source in (_pictures(context) / "dark").iterdir():
        (pictures / "dark" / source.name).write_bytes(source.read_bytes())
    run, data = _places(context)
    done = context.run_command(command(context, run, data, *QUICK, pictures=pictures))
    wrong = done.complaint(DATA, ("contains only the class 'dark'",)) or ("measuring" in done.output and "measured first")
    yield _result("a folder of one class is refused before the speed is measured", wrong)
    left = [str(place) for place in (run, data) if place.exists()]
    yield _result("nothing is left of a refused training", left and f"found {left}")


def _own_folder(context):
    """a folder of pictures in the place of the records"""
    work = context.directory("own")
    pictures = work / "data" / "pictures"
    for name in ("dark", "bright"):
        (pictures / name).mkdir(parents=True)
        for source in (_pictures(context) / name).iterdir():
            (pictures / name / source.name).write_bytes(source.read_bytes())
    (pictures / "labels.txt").write_text("mine")
    command = ["sh", "-c", f"cd {work} && exec " + " ".join(context.command("carillon", "train", "data/pictures", *QUICK[:-1], 2))]
    done = context.run_command(command)
    wrong = ("" if done.code == 0 else done.explain()) or ("labels.txt changed" if (pictures / "labels.txt").read_text() != "mine" else "")
    wrong = wrong or ("" if (work / "data/pictures-records/records.json").exists() else "no data/pictures-records")
    yield _result("records are not written into the folder of pictures", wrong)
    done = context.run_command(["sh", "-c", f"cd / && exec {context.binaries}/carillon evaluate {work}/runs/pictures"])
    yield _result("a run is evaluated from any folder", done.complaint(0))


def _links(context):
    """links to pictures"""
    work = context.directory("links")
    for name in ("dark", "bright"):
        (work / "target" / name).mkdir(parents=True)
        for source in (_pictures(context) / name).iterdir():
            (work / "target" / name / source.name).write_bytes(source.read_bytes())
    (work / "target" / "dark" / "dangling.png").symlink_to("/nowhere/picture.png")
    (work / "pictures").symlink_to("target")

    def run(*words):
        line = " ".join(map(str, (context.binaries / "carillon", *words)))
        return context.run_command(["sh", "-c", f"cd {work} && exec {line}"])

    done = run("train", "pictures", *QUICK[:-1], 2)
    said = "skipped 1 picture that cannot be opened" in done.output and "2 classes (bright, dark)" in done.output
    yield _result("a picture that cannot be opened is skipped", ("" if done.code == 0 else done.explain()) or (not said and done.output))
    wrong = "" if (work / "runs/pictures/plan.json").exists() else f"runs: {[p.name for p in (work / 'runs').iterdir()]}"
    yield _result("a training on a link has the name of the link", wrong or run("evaluate", "runs/pictures").complaint(0))
    wrong = run("evaluate", "runs/picture").complaint(NO_INPUT, ("no such file or folder", "runs/pictures"))
    yield _result("the runs that exist are named", wrong)


def _splits(context):
    """folders that may be splits"""
    work = context.directory("splits")
    for name in ("dark", "bright"):
        for source in (_pictures(context) / name).iterdir():
            for split, numbers in (("Training", range(30)), ("Testing", range(30, 40))):
                if int(source.stem) in numbers:
                    (work / split / name).mkdir(parents=True, exist_ok=True)
                    (work / split / name / source.name).write_bytes(source.read_bytes())
    run, data = _places(context)
    done = context.run_command(command(context, run, data, *QUICK[:-1], 2, pictures=work))
    wrong = done.complaint(0) or ("" if "2 classes (bright, dark), splits train, test" in done.output else done.output)
    yield _result("Training and Testing are the splits", wrong or ("" if _accuracy(done.output)[1] == 20 else done.output))
    for old, new in (("Training", "first"), ("Testing", "second")):
        (work / old).rename(work / new)
    run, data = _places(context)
    done = context.run_command(command(context, run, data, *QUICK[:-1], 2, pictures=work))
    yield _result("folders that may be splits are refused", done.complaint(DATA, ("first, second", "--layout classes")))
    done = context.run_command(command(context, run, data, *QUICK[:-1], 2, "--layout", "classes", pictures=work))
    wrong = done.complaint(0) or ("" if "2 classes (first, second)" in done.output else done.output)
    yield _result("--layout classes answers", wrong)
    again = context.run_command(command(context, run, data, *QUICK[:-1], 2, "--layout", "classes", pictures=work))
    yield _result("a training with --layout classes continues", again.complaint(0))


def _unusable(context):
    """a class without a usable picture"""
    pictures = context.directory("unusable")
    (pictures / "dark").mkdir(parents=True)
    (pictures / "bright").mkdir()
    for source in (_pictures(context) / "dark").iterdir():
        (pictures / "dark" / source.name).write_bytes(source.read_bytes())
        (pictures / "bright" / source.name).write_bytes(b"")
    run, data = _places(context)
    done = context.run_command(command(context, run, data, *QUICK[:-1], 2, pictures=pictures))
    said = "no picture of the split train can be used for the class 'bright'" in done.errors
    wrong = "" if done.code == DATA and said else done.explain()
    yield _result("a class without a usable picture is refused", wrong or (checkpoints(run) and "it trained"))


def _changes(context):
    """pictures that change"""
    pictures = context.directory("changing")
    for name in ("dark", "bright"):
        (pictures / name).mkdir(parents=True)
        for source in (_pictures(context) / name).iterdir():
            (pictures / name / source.name).write_bytes(source.read_bytes())
    (pictures / "bright" / "1.png").unlink()  # otherwise, the program would treat the copies as the same pictures
    run, data = _places(context)
    options = (*QUICK[:-1], 2)
    context.run_command(command(context, run, f"{data}/", *options, pictures=pictures))  # `data` with a slash
    done = context.run_command(command(context, run, data, *options, pictures=pictures))
    yield _result("a training continues with another spelling of its places", done.complaint(0))
    next(data.glob("train-*")).unlink()
    done = context.run_command(command(context, run, data, *options, "--fresh", pictures=pictures))
    yield _result("records that were removed are made again", done.complaint(0))
    done = context.run_command(command(context, run, data, *options, pictures=_pictures(context)))
    wrong = done.complaint(USAGE, (f"holds a training on {pictures}, not on {_pictures(context)}",))
    yield _result("a training on other pictures is refused", wrong)
    before, records = checkpoints(run), sorted((path, path.stat().st_mtime_ns) for path in data.glob("*.tfrecord"))
    for picture in (pictures / "dark").iterdir():
        picture.touch()
    done = context.run_command(command(context, run, data, *options, pictures=pictures))
    yield _result("a training continues if only the times of its pictures changed", done.complaint(0))
    moved = pictures.rename(pictures.with_name("moved"))
    done = context.run_command(command(context, run, data, *options, pictures=moved))
    yield _result("a training continues if the folder of its pictures moved", done.complaint(0))
    same = sorted((path, path.stat().st_mtime_ns) for path in data.glob("*.tfrecord")) == records
    evaluated = context.run_command(context.command("carillon", "evaluate", run))
    wrong = evaluated.complaint(0) or ("" if same else "the pictures were converted again")
    yield _result("pictures with other times or in another place are not converted again", wrong)
    pictures = moved.rename(pictures)
    context.run_command(command(context, run, data, *options, pictures=pictures))
    (pictures / "dark" / "0.png").unlink()
    done = context.run_command(command(context, run, data, *options, pictures=pictures))
    wrong = done.complaint(USAGE, ("--fresh", "have changed since the training began", "from its weights: "))
    wrong = wrong or ("" if checkpoints(run) == before else "the checkpoints changed")
    yield _result("a trained network is kept if the pictures change", wrong)
    advice = shlex.split(done.errors.partition("from its weights: ")[2])
    wrong = context.run_command([*advice, "--max-steps", "2", "--image-size", "16"]).complaint(0)
    wrong = wrong or context.run_command(context.command("carillon", "evaluate", run)).complaint(0)
    wrong = wrong or ("" if checkpoints(run) == before else "the checkpoints changed")
    yield _result("the command of the message trains on the changed pictures and keeps the training", wrong)
    done = context.run_command(command(context, run, data, *options, "--fresh", pictures=pictures))
    yield _result("--fresh trains on the changed pictures", done.complaint(0))


def _logged(run):
    """Returns the number of steps in metrics.jsonl. Returns 0 if the file does not exist, or if a line is being
    written."""
    try:
        return len(programs.losses(run))
    except (OSError, json.JSONDecodeError):
        return 0


def _start(context, run, data, steps):
    process = context.start(command(context, run, data, *QUICK))
    wait_for(process, lambda: _logged(run) > steps, f"{steps} steps are logged")
    return process


def _newest(run):
    return max((int(path.name.split("-")[1].split(".")[0]) for path in checkpoints(run)), default=0)


def _continued(context, run, data, before):
    """Runs the command again after a stop. Returns the error if the run does not continue from step `before`."""
    done = context.run_command(command(context, run, data, *QUICK))
    if done.code != 0:
        return done.explain()
    if f"at step {before}" not in done.output:
        return f"did not resume at step {before}: {done.output[-800:]}"
    return "" if _newest(run) == STEPS else f"ended at step {_newest(run)}"


def _stops(context):
    """INT, TERM, HUP and XCPU"""
    run, data = _places(context)
    process = context.start(command(context, run, data, *QUICK))
    while "image_eval" not in (line := process.stdout.readline()) and line:
        pass
    process.terminate()  # at this time, mpirun has not started the ranks yet
    done = context.finish(process)
    wrong = "" if done.code == STOPPED else done.explain()
    yield _result("TERM before the first rank exists stops the training", wrong)
    for steps, name in ((1, "INT"), (10, "TERM"), (25, "HUP"), (15, "XCPU")):
        run, data = _places(context)
        process = _start(context, run, data, steps)
        process.send_signal(getattr(signal, f"SIG{name}"))
        done = context.finish(process)
        saved, logged = _newest(run), _logged(run)
        wrong = "" if done.code == STOPPED else done.explain()
        wrong = wrong or ("" if saved == logged else f"saved step {saved} after {logged} logged steps")
        yield _result(f"after {name} nothing is lost", wrong or _continued(context, run, data, saved))


def _kill(context):
    """KILL"""
    run, data = _places(context)
    process = _start(context, run, data, 5)
    process.kill()
    context.finish(process)
    end = time.monotonic() + SETTLE
    while not _newest(run) and time.monotonic() < end:
        time.sleep(0.1)
    saved = _newest(run)
    wrong = "" if saved >= 5 else f"the ranks saved step {saved}"
    yield _result("if carillon is killed, its ranks save and end", wrong or _continued(context, run, data, saved))


if __name__ == "__main__":
    programs.main(check)
