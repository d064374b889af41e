"""Does what a new user does: converts pictures, trains, predicts and exports. Needs Pillow, onnxruntime and CIFAR-10.

  python tests/acceptance/check_images.py --bin build/bin --cifar FOLDER_OF_THE_BINARY_VERSION [--pictures 5000] [--steps 300]

Writes CIFAR-10's pictures as 10 folders of JPEG files of 64x64 pixels, converts them, trains every network of image_train
for some steps, evaluates it, predicts 1000 pictures, and compares carillon_predict with onnxruntime.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from PIL import Image

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
NETWORKS = ("resnet18", "resnet18_cifar", "resnet9", "airbench94", "airbench96", "resnet50")
SIZE = 64


def run(*command):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def write_pictures(source, folder, count):
    records = np.fromfile(source, np.uint8).reshape(-1, 3073)[:count]
    for i, record in enumerate(records):
        pixels = record[1:].reshape(3, 32, 32).transpose(1, 2, 0)
        path = folder / CLASSES[record[0]] / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize((SIZE, SIZE), Image.BICUBIC).save(path, quality=92)


def check_network(options, work, network):
    train_dir, model, images = work / network, work / f"{network}.onnx", work / f"{network}.npz"
    first = network == NETWORKS[0]
    steps = options.steps if first else max(4, options.steps // 50)
    run("mpirun", "--allow-run-as-root", "-np", 2, options.bin / "image_train", "--model", network, "--image-size", SIZE,
        "--data", work / "records/train-*", "--eval-data", work / "records/validation-*", "--train-dir", train_dir,
        "--max-steps", steps, "--batch-size", 32, "--log-every", 50)
    print(network, "trained:", run(options.bin / "image_eval", "--data", work / "records/validation-*", "--checkpoint",
                                   train_dir, "--report", work / f"{network}.json").splitlines()[-1])
    confusion = np.array(json.loads((work / f"{network}.json").read_text())["confusion"])
    print(f"  confusion matrix of {confusion.sum()} pictures, {np.trace(confusion)} on the diagonal")
    lines = run(options.bin / "carillon_predict", "--checkpoint", train_dir, "--json", "--top", 10, "--images", images,
                work / "test")
    ours = np.zeros((0, 10))
    for line in map(json.loads, lines.splitlines()):
        row = np.zeros(10)
        for prediction in line["predictions"]:
            row[prediction["index"]] = prediction["probability"]
            assert CLASSES[prediction["index"]] == prediction["class"]
        ours = np.vstack([ours, row])
    run(options.bin / "checkpoint_tool", "export", "--onnx", model, train_dir)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    seen = np.load(images)["images"]
    theirs = np.concatenate([session.run(["probabilities"], {"image": seen[i:i + 50]})[0] for i in range(0, len(seen), 50)])
    largest = float(np.abs(ours - theirs).max())
    holds = largest <= 1e-4 and len(ours) == len(theirs) >= 1000
    print(f"  onnxruntime and carillon_predict, {len(ours)} pictures: {largest:.1e} apart at most {'PASS' if holds else 'FAIL'}")
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--cifar", type=pathlib.Path, required=True)
    parser.add_argument("--pictures", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        write_pictures(options.cifar / "data_batch_1.bin", work / "pictures", options.pictures)
        write_pictures(options.cifar / "test_batch.bin", work / "test", 1000)
        print(run(options.bin / "tfrecord_convert", "images", "--input", work / "pictures", "--output", work / "records",
                  "--validation-share", 0.1, "--shards", 4))
        sys.exit(0 if all([check_network(options, work, network) for network in options.networks]) else 1)


if __name__ == "__main__":
    main()
