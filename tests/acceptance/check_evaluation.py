"""A training evaluates at the right steps, and its results equal the results of the evaluation programs and of their
reports."""

import csv
import json
import re
import struct
import xml.etree.ElementTree

import numpy as np

import programs
import reference_mnist
from hdf5 import load
from processes import wait_for
from programs import SCALED, VARIABLES, Result, checkpoint
from tfrecords import example, write_records

QUIET = ("--log-every", 0, "--summary-every", 0, "--keep-checkpoints", 0)


def check(context):
    """evaluation during training"""
    data = context.small_set(1000, 1000)
    yield from _steps(context, data)
    yield from _pixel_scale(context, data)
    yield from _reports(context, data)
    yield from _outputs(context, data)
    yield from _without_averages(context, data)
    yield from _stop_at_accuracy(context, data)
    yield from _patience(context, data)
    yield from _undistorted(context)


def _evaluations(train_dir):
    """Returns [(step, correct, total)] in the order of the log."""
    lines = programs.metrics(train_dir)
    return [(line["step"], line["eval_correct"], line["eval_total"]) for line in lines if "eval_correct" in line]


def _counted(context, program, records, path, *options):
    """Runs an evaluation program. Returns (correct, total) from its output."""
    done = context.run(program, "--data", records, "--checkpoint", path, "--device", context.device, *options)
    ((correct, total),) = re.findall(r"^precision @ 1 = \S+ \((\d+)/(\d+)\)$", done.output, re.MULTILINE)
    return int(correct), int(total)


def _result(title, found, expected):
    detail = f"{found}" if found == expected else f"{found}, not {expected}"
    return Result(f"evaluation: {title}", found == expected, detail)


def _steps(context, data):
    """Checks at which steps a run evaluates, and which weights the evaluations use. Repeats the check for a run that
    resumes at 2 ranks."""
    records = data / "test-*.tfrecord"
    common = (*SCALED, *QUIET, "--batch-size", 50, "--eval-data", records)

    def train(run, last, *options, ranks=0):
        patterns = data / "train-*.tfrecord"
        context.train(*common, "--max-steps", last, *options, data=patterns, train_dir=run, ranks=ranks)
        return _evaluations(run)

    def expected(*options):
        return [(step, *_counted(context, "mnist_eval", records, checkpoint(run, step), *options)) for step in steps]

    often = ("--eval-every", 4, "--checkpoint-every", 4)
    run, steps = context.directory("evaluated"), (4, 8, 10)
    first = train(run, 10, *often)
    averages = expected(*SCALED[:2])
    yield _result("every 4 steps and at the end, with the moving averages", first, averages)
    raw = expected(*SCALED[:2], "--raw-weights")
    yield Result("evaluation: --raw-weights changes the result", raw != averages, f"{raw}")
    yield _result("mnist_eval, not cached", expected(*SCALED[:2], "--cache", "none"), averages)
    uncached = train(context.directory("uncached"), 10, *often, "--cache", "none")
    yield _result("in training, not cached", uncached, first)
    yield _result("without --eval-every, at the end", train(context.directory("once"), 10), first[-1:])

    resumed = train(run, 14, *often, ranks=2)
    steps = (4, 8, 10, 12, 14)
    yield _result("resumed at 2 ranks: evaluates the resumed step again", resumed, expected(*SCALED[:2]))


def _pixel_scale(context, data):
    """Checks that the evaluation uses the training's --pixel-scale. With this small scale, the biases decide the class.
    Therefore another scale would change the result."""
    run = context.directory("scaled")
    records = data / "test-*.tfrecord"
    context.train(
        *QUIET, "--pixel-scale", 1e-5, "--learning-rate", 0.5, "--batch-size", 50, "--max-steps", 20,
        "--eval-data", records, data=data / "train-*.tfrecord", train_dir=run,
    )  # fmt: skip
    ((_, *logged),) = _evaluations(run)
    stored = _counted(context, "mnist_eval", records, run)
    yield _result("mnist_eval uses the checkpoint's pixel scale", stored, tuple(logged))
    other = _counted(context, "mnist_eval", records, run, "--pixel-scale", 1)
    yield Result("evaluation: --pixel-scale overrides it", other != stored, f"{other}, with the stored one {stored}")


def _without_averages(context, data):
    """With --moving-average-decay 0, no output mentions moving averages."""
    run, records = context.directory("averages"), data / "test-*.tfrecord"
    context.train(*SCALED, *QUIET, "--moving-average-decay", 0, "--max-steps", 3, data=data / "train-*.tfrecord", train_dir=run)
    evaluated = context.run("mnist_eval", "--data", records, "--checkpoint", run, "--report", run / "report.json")
    inspected = context.run("checkpoint_tool", "inspect", run)
    texts = (evaluated.output, (run / "report.json").read_text(), re.sub("moving_average_decay", "", inspected.output))
    said = [text for text in texts if "moving" in text]
    right = not said and "model.ckpt-3.h5: variables at step 3\n" in evaluated.output
    yield Result("evaluation: no moving averages, so no output names them", right, " | ".join(said))


def _logits(path, images):
    """Computes the outputs with numpy, [count, 10] float64, from the moving averages of a checkpoint."""
    arrays = load(path)
    w1, b1, w2, b2 = (arrays[f"moving_averages/{name}"].astype(np.float64) for name in VARIABLES)
    return np.maximum(images * float(SCALED[1]) @ w1 + b1, 0) @ w2 + b2


def _cross_entropy(logits, labels):
    """Returns the mean cross-entropy of the samples."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]))


def _reports(context, data):
    """Compares --report, as JSON and as CSV, at 1, 2 and 4 ranks with numpy's counts."""
    run, records = context.directory("reported"), data / "test-*.tfrecord"
    context.train(
        *SCALED, *QUIET, "--max-steps", 40, "--label-smoothing", 0.3, "--eval-data", records,
        data=data / "train-*.tfrecord", train_dir=run,
    )  # fmt: skip

    def report(name, *options, ranks=0, **keywords):
        return context.run(
            "mnist_eval", "--data", records, "--checkpoint", run, "--device", context.device, "--report", run / name,
            *options, ranks=ranks, **keywords,
        )  # fmt: skip

    done = {ranks: report(f"{ranks}.json", ranks=ranks) for ranks in (0, 2, 4)}
    files = {(run / f"{ranks}.json").read_text() for ranks in done}
    yield Result("evaluation: reports of 1, 2 and 4 ranks are equal", len(files) == 1, f"{len(files)} different")
    found = json.loads(files.pop())

    images, labels = reference_mnist.read_set(sorted(data.glob("test-*.tfrecord")))
    logits = _logits(checkpoint(run, 40), images)
    confusion = np.zeros((10, 10), np.int64)
    np.add.at(confusion, (labels, logits.argmax(axis=1)), 1)
    differing = int(np.abs(confusion - found["confusion"]).sum())
    yield Result("evaluation: the report's confusion matrix equals numpy's", differing == 0, f"{differing} counts differ")

    loss = _cross_entropy(logits, labels)
    losses = [found["loss"], *(line["eval_loss"] for line in programs.metrics(run) if "eval_loss" in line)]
    near = len(losses) == 2 and all(abs(value - loss) < 1e-5 * loss for value in losses)
    near = near and f"cross-entropy = {loss:.4f}" in done[2].output.splitlines()
    yield Result("evaluation: the loss in reports, logs and output equals numpy's", near, f"{losses}, numpy: {loss}")

    matrix = np.array(found["confusion"])
    expected = [(np.bincount(labels, minlength=10), "support"), (matrix.sum(axis=0), "predicted"),
                (matrix.diagonal(), "correct")]  # fmt: skip
    wrong = [name for values, name in expected if [item[name] for item in found["classes"]] != values.tolist()]
    for name, of in (("precision", "predicted"), ("recall", "support")):
        if any(item[name] != (item["correct"] / item[of] if item[of] else None) for item in found["classes"]):
            wrong.append(name)
    yield _result("the report's values of each class", wrong, [])

    line = f"precision @ 1 = {found['precision']:.3f} ({matrix.trace()}/{len(labels)})"
    same = found["precision"] == matrix.trace() / matrix.sum() and line in done[0].output.splitlines()
    yield Result("evaluation: the report has the printed accuracy", same, line)

    scores = _class_scores(confusion, logits, labels)
    wrong = [f"{name} {found[name]}, numpy: {value}" for name, value in scores.items() if abs(found[name] - value) > 1e-6]
    evaluations = [line for line in programs.metrics(run) if "eval_loss" in line]
    wrong += [name for name in scores if evaluations[-1][f"eval_{name}"] != found[name]]
    printed = ", ".join(f"{text} = {found[name]:.4f}" for name, text in (
        ("top_5", "top-5"), ("balanced_accuracy", "balanced accuracy"), ("macro_f1", "macro F1"),
        ("calibration_error", "calibration error")))  # fmt: skip
    wrong += [] if printed in done[2].output.splitlines() else [done[2].output]
    yield _result("the other scores in reports, logs and output equal numpy's", wrong, [])

    report("2.csv", ranks=2)
    with open(run / "2.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    read = [[int(row[f"predicted_{label}"]) for label in range(10)] for row in rows]
    total = {name: str(found[name]) for name in ("total", "correct", "precision")}
    same = read[:10] == found["confusion"] and rows[10]["class"] == "total" and rows[10]["support"] == total["total"]
    same = same and all(rows[10][name] == total[name] for name in ("correct", "precision"))
    same = same and float(rows[10]["loss"]) == found["loss"] and rows[0]["loss"] == ""
    yield Result("evaluation: the CSV report has the same values", same, f"total {rows[10]['precision']}")

    refused = {"a.txt": 64, "missing/a.json": 74}
    for name, code in refused.items():
        # The program rejects the report before it reads this path, so the path need not exist.
        done = report(name, "--data", run / "no records", ranks=2, expect=None)
        complaint = done.complaint(code, [f"--report {run / name}: "])
        yield Result(f"evaluation: --report {name} is rejected at once", not complaint, complaint or done.lines[0])
    left = [path.name for path in run.iterdir() if path.name.endswith(".tmp")]
    yield _result("reports leave no other files", left, [])


def _class_scores(confusion, logits, labels):
    """Returns {name: value} of all scores except accuracy and loss."""
    support, predicted, correct = confusion.sum(axis=1), confusion.sum(axis=0), confusion.diagonal()
    places = (logits > logits[np.arange(len(labels)), labels][:, None]).sum(axis=1)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    confidence = (probabilities / probabilities.sum(axis=1, keepdims=True)).max(axis=1)
    bins = np.ceil(confidence * 15).astype(int) - 1
    gaps = [(logits.argmax(axis=1) == labels)[bins == b].sum() - confidence[bins == b].sum() for b in range(15)]
    return {
        "top_5": (places < 5).mean(),
        "balanced_accuracy": (correct / support)[support > 0].mean(),
        "macro_f1": (2 * correct / np.maximum(support + predicted, 1))[support + predicted > 0].mean(),
        "calibration_error": np.abs(gaps).sum() / len(labels),
    }


def _outputs(context, data):
    """Checks the HTML page, the table of predictions and the sheet of wrong predictions at 1, 2 and 4 ranks."""
    run, records = context.directory("outputs"), data / "test-*.tfrecord"
    context.train(
        *SCALED, "--log-every", 5, "--summary-every", 0, "--max-steps", 20, "--eval-data", records, "--eval-every", 10, data=data / "train-*.tfrecord",
        train_dir=run,
    )  # fmt: skip
    names = ("report.html", "report.json", "predictions.csv", "mistakes.png")

    def evaluate(folder, *options, ranks=0, **keywords):
        page, report, predictions, mistakes = (folder / name for name in names)
        outputs = ("--report", page, report, "--predictions", predictions, "--mistakes", mistakes)
        return context.run(
            "mnist_eval", "--data", records, "--checkpoint", run, "--device", context.device, *outputs, *options, ranks=ranks,
            **keywords,
        )  # fmt: skip

    folders = {ranks: context.directory("of-ranks") for ranks in (0, 2, 4)}
    for ranks, folder in folders.items():
        folder.mkdir()
        evaluate(folder, ranks=ranks)
    differing = [name for name in names if len({(folder / name).read_bytes() for folder in folders.values()}) > 1]
    yield _result("pages, predictions and sheets of 1, 2 and 4 ranks are equal", differing, [])
    folder = folders[2]

    page = (folder / "report.html").read_text()
    root = xml.etree.ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    sections = [section.get("id") for section in root.iter("section")]
    wrong = [] if sections == ["scores", "curves", "confusion", "classes", "calibration", "pictures", "run"] else [sections]
    wrong += [] if len(list(root.iter("svg"))) == 4 else ["charts"]
    wrong += [name for name in (str(checkpoint(run, 20)), "--learning-rate") if name not in page]
    wrong += re.findall("https?:.*", page)
    wrong += [image.get("src")[:40] for image in root.iter("img") if not image.get("src").startswith("data:image/jpeg;base64,")]
    yield _result("the page is well-formed, and needs no network", wrong, [])

    images, labels = reference_mnist.read_set(sorted(data.glob("test-*.tfrecord")))
    logits = _logits(checkpoint(run, 20), images)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    order = np.argsort(-logits, axis=1, kind="stable")[:, :5]
    with open(folder / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = [] if len(rows) == len(labels) else [f"{len(rows)} rows"]
    for number, row in enumerate(rows):
        classes = [int(row[f"class_{place}"]) for place in range(1, 6)]
        found = [float(row[f"probability_{place}"]) for place in range(1, 6)]
        right = int(row["true"]) == labels[number] and classes[0] == int(row["predicted"]) and classes == order[number].tolist()
        right = right and np.allclose(found, probabilities[number][classes], rtol=1e-3)
        right = right and row["file"].endswith(".tfrecord") and int(row["record"]) == number and row["picture"] == ""
        wrong += [] if right else [f"record {number}: {row}"]
    yield _result("the predictions equal numpy's", wrong[:2], [])
    counted = sum(row["true"] == row["predicted"] for row in rows)
    correct = json.loads((folder / "report.json").read_text())["correct"]
    yield _result("the predictions have the printed accuracy", counted, correct)
    sheet = (folder / "mistakes.png").read_bytes()
    size = struct.unpack(">2I", sheet[16:24])
    yield _result("the sheet is a PNG of 8 x 8 mistakes", (sheet[:8], size), (b"\x89PNG\r\n\x1a\n", (950, 8 * 166 + 6)))

    refused = {
        ("--report", "a.txt"): (64, "--report"), ("--predictions", "a.json"): (64, "--predictions"),
        ("--mistakes", "a.jpg"): (64, "--mistakes"), ("--report", "missing/a.html"): (74, "--report"),
        ("--predictions", "missing/a.csv"): (74, "--predictions"), ("--mistakes", "missing/a.png"): (74, "--mistakes"),
    }  # fmt: skip
    for (option, name), (code, said) in refused.items():
        done = context.run(
            "mnist_eval", "--data", run / "no records", "--checkpoint", run, option, run / name, ranks=2, expect=None
        )
        complaint = done.complaint(code, [f"{said} {run / name}: "])
        yield Result(f"evaluation: {option} {name} is rejected at once", not complaint, complaint or done.lines[0])
    same = run / "a.csv"
    done = context.run(
        "mnist_eval", "--data", records, "--checkpoint", run, "--report", same, "--predictions", same, expect=None
    )
    complaint = done.complaint(64, [f"--predictions {same}: another output has the same file"])
    yield Result("evaluation: two outputs cannot be one file", not complaint and not same.exists(), complaint)


def _stop_at_accuracy(context, data):
    """A run of 2 ranks must end at the first evaluation that reaches --stop-at-accuracy. If the same command runs
    again, it must train no step."""
    run, reached = context.directory("stopped"), 0.5

    def train(*options, **keywords):
        return context.train(
            *SCALED, *QUIET, "--batch-size", 50, "--max-steps", 100, "--stop-at-accuracy", reached, *options,
            data=data / "train-*.tfrecord", train_dir=run, ranks=2, **keywords,
        )  # fmt: skip

    complaint = train(expect=None).complaint(64, ["--stop-at-accuracy requires --eval-data"])
    yield Result("evaluation: --stop-at-accuracy requires --eval-data", not complaint and not run.exists(), complaint)
    evaluation = ("--eval-data", data / "test-*.tfrecord", "--eval-every", 2)
    done = train(*evaluation)
    found = _evaluations(run)
    last, correct, total = found[-1]
    ends = [correct / total >= reached for _, correct, total in found] == [False] * (len(found) - 1) + [True]
    ends = ends and 0 < last < 100 and programs.checkpoints(run) == [checkpoint(run, last)]
    yield Result("evaluation: --stop-at-accuracy saves and ends the run", ends, f"{found}")
    line = rf"^reached accuracy \S+ \({correct}/{total}\) at step {last}, --stop-at-accuracy 0.5, after (\S+) s: (.*)$"
    ((after, phases),) = re.findall(line, done.output, re.MULTILINE)
    off = abs(sum(float(part) for part in re.findall(r"(\S+) s\b", phases)) - float(after))
    yield Result("evaluation: it reports the time of each phase", off < 0.03, f"after {after} s: {phases}")
    done = train(*evaluation)
    said = f"nothing to do: {run} holds step {last}, whose evaluation reached --stop-at-accuracy 0.5" in done.output
    said = said and _evaluations(run) == found
    yield Result("evaluation: the same command again has nothing to do", said, done.output.splitlines()[-1])


def _patience(context, data):
    """--patience must end a run. If the run is killed twice, and resumes with other numbers of ranks, it must end at
    the same step as without interruption."""
    every, patience = 10, 3
    options = (
        *SCALED, *QUIET, "--global-batch", 48, "--micro-batch", 12, "--max-steps", 5000,
        "--eval-data", data / "test-*.tfrecord", "--checkpoint-every", 7,
    )  # fmt: skip

    def train(run, *more, ranks, **keywords):
        return context.train(*options, *more, data=data / "train-*.tfrecord", train_dir=run, ranks=ranks, **keywords)

    run = context.directory("patience")
    complaint = train(run, "--patience", patience, ranks=1, expect=None).complaint(64, ["--patience requires --eval-every"])
    yield Result("evaluation: --patience requires --eval-every", not complaint and not run.exists(), complaint)
    more = ("--eval-every", every, "--patience", patience)
    done = train(run, *more, ranks=1)
    whole = _evaluations(run)
    correct = [evaluation[1] for evaluation in whole]
    best = correct.index(max(correct))
    ends = best == len(whole) - 1 - patience and max(correct[:-patience]) == correct[best]
    last, best_step = whole[-1][0], whole[best][0]
    yield Result(f"evaluation: --patience {patience} ends the run", ends and checkpoint(run, last).exists(), f"{correct}")
    score = rf"accuracy \S+ \({correct[best]}/{whole[best][2]}\) at step {best_step}$"
    lines = (
        rf"^ended by --patience {patience} at step {last}: no later evaluation was better than {score}",
        rf"^best checkpoint {re.escape(str(run))}/best.ckpt.h5: {score}",
    )
    told = all(re.search(line, done.output, re.MULTILINE) for line in lines)
    yield Result("evaluation: --patience names the best checkpoint", told, done.output.splitlines()[-1])

    killed = context.directory("patience")
    for ranks, until in ((2, last // 3), (4, 2 * last // 3)):
        process = context.start(
            context.command(
                "mnist_train", "--data", data / "train-*.tfrecord", "--train-dir", killed, "--device", context.device,
                *options, *more, ranks=ranks,
            )
        )  # fmt: skip
        steps = range(until - until % 7, last, 7)
        wait_for(process, lambda: any(checkpoint(killed, step).exists() for step in steps), "a checkpoint")
        programs.kill(process)
    train(killed, *more, ranks=1)
    found = [evaluation for evaluation in _evaluations(killed) if evaluation[0] % every == 0]
    yield _result("--patience, killed at 2 and at 4 ranks: the same evaluations", found, whole)
    differs = programs.same_bits(checkpoint(run, last), checkpoint(killed, last))
    yield Result("evaluation: --patience, killed at 2 and at 4 ranks: the same end", not differs, differs or "equal arrays")
    done = train(killed, *more, ranks=2)
    said = f"nothing to do: {killed} holds step {last}, where --patience {patience} ended the run" in done.output
    yield Result("evaluation: --patience: the same command again has nothing to do", said, done.output.splitlines()[-1])


def _halves(path, count):
    """Writes images in which either the left half (label 0) or the right half (label 1) is bright. A flip turns one
    class into the other."""
    random = np.random.default_rng(count)
    images = random.integers(0, 60, (count, 3, 32, 32), np.uint8)
    for number, image in enumerate(images):
        image[:, :, slice(16, 32) if number % 2 else slice(0, 16)] += 150
    write_records(path, [example({"image": image.tobytes(), "label": [i % 2]}) for i, image in enumerate(images)])
    return path


def _undistorted(context):
    """A training flips half of its images, but its evaluations must not flip images. With a flip, the evaluation would
    find the wrong class, because the classes differ in the bright half."""
    folder = context.directory("halves")
    folder.mkdir()
    train, test = _halves(folder / "train", 96), _halves(folder / "test", 200)
    common = dict(program="cifar10_train", data=train)
    learnt, run = context.directory("learnt"), context.directory("distorting")
    context.train(
        *QUIET, "--batch-size", 32, "--max-steps", 12, "--learning-rate", 0.05, "--distort=false", "--eval-data", test,
        train_dir=learnt, **common,
    )  # fmt: skip
    context.train(
        *QUIET, "--batch-size", 8, "--max-steps", 2, "--learning-rate", 1e-30, "--distort=true", "--eval-data", test,
        "--init-from", checkpoint(learnt, 12), train_dir=run, **common,
    )  # fmt: skip
    ((_, *before),), ((_, *logged),) = _evaluations(learnt), _evaluations(run)
    expected = _counted(context, "cifar10_eval", test, learnt)
    yield _result("cifar10_train and cifar10_eval count the same", tuple(before), expected)
    expected = _counted(context, "cifar10_eval", test, run)
    yield _result("cifar10_train evaluates undistorted images", tuple(logged), expected)
    yield Result("evaluation: a flip changes the class of these images", expected[0] >= 0.9 * expected[1], f"{expected}")


if __name__ == "__main__":
    programs.main(check)
