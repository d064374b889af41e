#!/usr/bin/env python3
"""Imports networks of timm and torchvision from ONNX files, and compares logits and the gradients of one step with PyTorch.

  tests/acceptance/check_onnx_networks.py --bin build/bin [--work DIR] [--markdown FILE] [MODEL...]

Needs torch, timm, torchvision, onnx, onnxruntime, safetensors and Pillow, and onnxscript for networks that only the
exporter of torch.export reads. Exports each network with random weights, imports it with
`image_train --model FILE.onnx`, and prints a row with the result and two errors against PyTorch in float64. The error
of logits is the largest error minus twice the largest error of PyTorch in float32, at least 0, divided by the largest
logit. The error of gradients is relative to the norm of all gradients.

If rounding changes the sign of a ReLU's input, or the largest element of a pool's window, a gradient jumps. So the
script measures how much gradients depend on rounding: it computes the gradients in float64 again, from weights and
pixels with relative noise of 1e-7, which is near the rounding of float32. The rounding error is the largest error of
four such computations and of PyTorch in float32; the row names it. A network is equal if its error of logits is below
1e-4, and its error of gradients is below 1e-3 or at most twice the rounding error. Each network is tried with up to
three sets of weights.

Some networks compute the weights of convolutions from several arrays. Carillon trains the computed weights, and the
script compares the gradients of the computed weights.

Exits with 1 if fewer than 90 % of the exported networks are equal.
"""

import argparse
import contextlib
import copy
import io
import itertools
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import onnxruntime
import safetensors.numpy
import timm
import torch
import torchvision
from PIL import Image

# Each network, with the smallest image size at which it has its usual structure.
NETWORKS = {
    "bat_resnext26ts": 64, "beit_base_patch16_224": 224, "cait_xxs24_224": 224, "caformer_s18": 64, "coat_tiny": 224,
    "coatnet_nano_rw_224": 224, "convformer_s18": 64, "convit_tiny": 224, "convmixer_768_32": 64, "convnext_atto": 64,
    "convnext_tiny": 64, "convnextv2_atto": 64, "cspdarknet53": 64, "cspresnet50": 64, "cspresnext50": 64, "darknet53": 64,
    "davit_tiny": 64, "deit3_small_patch16_224": 224, "deit_tiny_patch16_224": 224, "densenet121": 64, "dla34": 64,
    "dm_nfnet_f0": 64, "dpn48b": 64, "eca_nfnet_l0": 64, "ecaresnet26t": 64, "edgenext_xx_small": 64,
    "efficientformer_l1": 224, "efficientformerv2_s0": 224, "efficientnet_b0": 64, "efficientnet_lite0": 64,
    "efficientnetv2_rw_t": 64, "efficientvit_b0": 64, "ese_vovnet19b_dw": 64, "fastvit_t8": 64, "fbnetc_100": 64,
    "fbnetv3_b": 64, "focalnet_tiny_srf": 64, "gc_efficientnetv2_rw_t": 64, "gcresnet33ts": 64, "gernet_s": 64,
    "ghostnet_100": 64, "gmlp_s16_224": 224, "halonet26t": 256, "hardcorenas_a": 64, "hgnet_tiny": 64, "hrnet_w18_small": 64,
    "inception_resnet_v2": 96, "inception_v3": 96, "inception_v4": 96, "lambda_resnet26t": 128, "lcnet_050": 64,
    "legacy_senet154": 64, "levit_128s": 224, "mambaout_femto": 64, "maxvit_rmlp_pico_rw_256": 256, "mixer_s32_224": 224,
    "mixnet_s": 64, "mnasnet_100": 64, "mobilenetv2_100": 64, "mobilenetv3_large_100": 64, "mobilenetv4_conv_small": 64,
    "mobileone_s0": 64, "mobilevit_xxs": 64, "mobilevitv2_050": 64, "mvitv2_tiny": 224, "nasnetalarge": 96,
    "nest_tiny": 224, "nfnet_l0": 64, "pit_ti_224": 224, "pnasnet5large": 96, "poolformer_s12": 64, "pvt_v2_b0": 64,
    "regnetx_002": 64, "regnety_002": 64, "repvgg_a0": 64, "repvit_m0_9": 64, "res2net50_26w_4s": 64, "resmlp_12_224": 224,
    "resnest14d": 64, "resnet18": 64, "resnet50": 64, "resnet50d": 64, "resnetv2_50": 64, "resnext50_32x4d": 64,
    "rexnet_100": 64, "sebotnet33ts_256": 256, "selecsls42": 64, "seresnet50": 64, "skresnet18": 64, "spnasnet_100": 64,
    "swin_tiny_patch4_window7_224": 224, "swinv2_tiny_window8_256": 256, "tf_efficientnet_b0": 64,
    "tf_efficientnetv2_b0": 64, "tinynet_e": 64, "tiny_vit_5m_224": 224, "tnt_s_legacy_patch16_224": 224, "twins_svt_small": 64,
    "vgg11": 224, "vgg11_bn": 224, "visformer_tiny": 224, "vit_small_patch16_224": 224, "vovnet39a": 64, "wide_resnet50_2": 64,
    "xception": 96, "xception41": 96, "xcit_nano_12_p16_224": 224, "xcit_tiny_12_p8_224": 64,
    "torchvision.alexnet": 224, "torchvision.googlenet": 64, "torchvision.maxvit_t": 224, "torchvision.mobilenet_v3_small": 64,
    "torchvision.regnet_y_400mf": 64, "torchvision.shufflenet_v2_x0_5": 64, "torchvision.squeezenet1_1": 64,
    "torchvision.swin_t": 64, "torchvision.swin_v2_t": 64, "torchvision.vit_b_16": 64,
}  # fmt: skip
CLASSES = BATCH = 4


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return done.stdout


def records(programs, work, size):
    """Makes records of random pictures. Returns their path, and the pictures as [batch, 3, size, size] with values from
    0 to 1, in the order of the records."""
    folder, data = work / f"pictures-{size}", work / f"records-{size}"
    generator = np.random.default_rng(size)
    images = generator.integers(0, 256, (BATCH, size, size, 3), dtype=np.uint8)
    if not data.exists():
        lines = []
        for i, image in enumerate(images):
            path = folder / f"{i % CLASSES}" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
            lines.append(f"{path.relative_to(folder)} {i % CLASSES}")
        (folder / "list.txt").write_text("\n".join(lines) + "\n")
        run(programs / "tfrecord_convert", "images", "--input", folder / "list.txt", "--output", data)
    # The converter shuffles the pictures. Find the position of each picture in the records by its bytes.
    content = (data / "train-00000-of-00001.tfrecord").read_bytes()
    order = sorted(range(BATCH), key=lambda i: content.find((folder / f"{i % CLASSES}" / f"{i}.png").read_bytes()))
    labels = torch.tensor(order)
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    pixels = (images[order] / 255.0 - mean) / deviation
    return data / "train-*", images[order], torch.tensor(pixels.transpose(0, 3, 1, 2).copy()), labels


def export(model, path, size, dynamo):
    sample = torch.randn(2, 3, size, size)
    model.eval()  # in training mode, an export would change the running statistics
    if dynamo:
        batch = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(model, (sample,), path, dynamo=True, optimize=False, dynamic_shapes=batch)
        return
    torch.onnx.export(
        model, (sample,), path, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, dynamo=False,
        opset_version=17, input_names=["image"], output_names=["logits"], dynamic_axes={"image": {0: "batch"}},
    )  # fmt: skip


def arrays_of(programs, run_folder, path):
    run(programs / "carillon", "export", run_folder, "--safetensors", path)
    return {name: array.astype(np.float64) for name, array in safetensors.numpy.load_file(path).items()}


@contextlib.contextmanager
def computed_weights():
    """Records the weights of convolutions that the network computes from other arrays."""
    convolve, weights = torch.nn.functional.conv2d, []

    def recorded(x, weight, *arguments, **options):
        if not weight.is_leaf:
            weight.retain_grad()
            weights.append(weight)
        return convolve(x, weight, *arguments, **options)

    torch.nn.functional.conv2d = recorded
    try:
        yield weights
    finally:
        torch.nn.functional.conv2d = convolve


def gradients_of(model, pixels, labels, computed=None):
    """Returns the gradients by parameter. Appends the computed weights of convolutions to the list `computed`. Their
    gradients have the names "computed 0", "computed 1" and so on."""
    model = copy.deepcopy(model).train()  # a copy, because a forward pass changes the running statistics
    with computed_weights() as weights:
        torch.nn.functional.cross_entropy(model(pixels), labels).backward()
    arrays = dict(model.named_parameters()) | {f"computed {i}": weight for i, weight in enumerate(weights)}
    if computed is not None:
        computed.extend(weight.detach().double().numpy() for weight in weights)
    return {
        name: (torch.zeros_like(values) if values.grad is None else values.grad).double().numpy()
        for name, values in arrays.items()
    }


def noisy(model, pixels, generator):
    """Returns copies of the model and the pixels, with relative noise of 1e-7."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for values in model.parameters():
            values *= 1 + 1e-7 * torch.randn(values.shape, generator=generator, dtype=values.dtype)
    return model, pixels * (1 + 1e-7 * torch.randn(pixels.shape, generator=generator, dtype=pixels.dtype))


def turn_to(array, wanted):
    """Returns a function that permutes the axes of `array` so that it equals `wanted`. Returns None if there is no such
    order, or if all values are 0."""
    if array.size != wanted.size or not wanted.any():
        return None
    for order in itertools.permutations(range(array.squeeze().ndim)):
        def turn(values, order=order):
            return values.squeeze().transpose(order).reshape(wanted.shape)
        same_shape = array.squeeze().transpose(order).shape == wanted.squeeze().shape
        if same_shape and np.abs(turn(array) - wanted).max() < 1e-5:
            return turn
    return None


def turned_arrays(first, exact, wanted):
    """Returns {PyTorch's name: (Carillon's name, function that permutes the axes into PyTorch's order)} for the arrays
    in `wanted`, which have other names or another order of axes in Carillon."""
    found, unused = {}, {name: array for name, array in first.items() if name not in exact}
    for parameter, values in wanted.items():
        for name, array in unused.items():
            turn = turn_to(array, values)
            if turn is not None:
                found[parameter] = (name, turn)
                del unused[name]
                break
    return found


def distance(found, exact):
    """Returns the distance of the gradients `found` from the gradients `exact`, relative to the norm of `exact`."""
    squares = sum(np.square(found[name] - exact[name]).sum() for name in found)
    return np.sqrt(squares / sum(np.square(exact[name]).sum() for name in found))


def compare(programs, work, name, size, dynamo):
    """Returns the best result of up to three sets of weights: the result with the smallest error of gradients relative
    to its limit. Stops at the first error below the limit."""
    best = None
    for seed in range(3):
        found = compare_weights(programs, work, name, size, dynamo, seed)
        excess = found[1] / max(1e-3, 2 * found[2])
        if best is None or excess < best[1] / max(1e-3, 2 * best[2]):
            best = found
        if best[1] < max(1e-3, 2 * best[2]):
            break
    return best


def create(name, size):
    if name.startswith("torchvision."):
        extra = {"input_size": (size, size)} if "maxvit" in name else {"image_size": size} if "vit_" in name else {}
        if "googlenet" in name:
            extra = {"aux_logits": False, "init_weights": False}
        return torchvision.models.get_model(name.removeprefix("torchvision."), num_classes=CLASSES, **extra)
    extra = {"img_size": size} if size < 224 and name.startswith(("vit", "deit", "xcit")) else {}
    return timm.create_model(name, num_classes=CLASSES, **extra)


def compare_weights(programs, work, name, size, dynamo, seed):
    torch.manual_seed(seed)
    model = create(name, size)
    for module in model.modules():  # set scales and statistics that differ from the initial 1 and 0
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(module.running_var, 0.8, 1.2)
        if isinstance(module, timm.layers.DropPath):  # Carillon and PyTorch would draw different random numbers
            module.drop_prob = 0.0
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "gain", None), torch.nn.Parameter):  # of standardised weights; 0 in some networks
            torch.nn.init.uniform_(module.gain, 0.5, 1.5)
    path = work / f"{name}.{seed}.onnx"
    if not path.exists():
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                export(model, path, size, dynamo)
            except Exception:  # TorchScript's exporter does not know all of PyTorch's functions
                path.unlink(missing_ok=True)
                export(model, path, size, dynamo=True)
    data, images, pixels, labels = records(programs, work, size)
    options = [
        "--model", path, "--image-size", size, "--classes", CLASSES, "--data", data, "--global-batch", BATCH, "--shuffle", "false",
        "--distort", "false", "--fit", "squash", "--optimizer", "sgd", "--schedule", "constant", "--learning-rate", 1, "--regularization", 0,
        "--device", "cpu", "--precision", "fp32", "--fresh", "--summary-every", 0,
    ]  # fmt: skip
    before, after = work / f"{name}-0", work / f"{name}-1"
    run(programs / "image_train", *options, "--train-dir", before, "--max-steps", 0)
    run(programs / "image_train", *options, "--train-dir", after, "--max-steps", 1)
    own = gradients_of(model, pixels.float(), labels)
    model.eval()
    with torch.no_grad():
        single = model(pixels.float()).double().numpy()
        model = model.double()
        expected = model(pixels).numpy()
    run(programs / "carillon", "export", before, "--onnx", work / f"{name}-back.onnx")
    session = onnxruntime.InferenceSession(str(work / f"{name}-back.onnx"))
    logits = session.run(["logits"], {"image": images.transpose(0, 3, 1, 2).astype(np.float32)})[0]
    largest = max(np.abs(expected).max(), 1e-6)  # the logits of some networks are 0 at first
    # With random statistics, some activations grow so large that float32 has few correct digits. So an error is also
    # accepted if it is at most twice the error of PyTorch in float32.
    error = max(0.0, np.abs(logits - expected).max() - 2 * np.abs(single - expected).max()) / largest
    computed = []
    exact = gradients_of(model, pixels, labels, computed)
    first, second = (arrays_of(programs, folder, work / f"{name}.safetensors") for folder in (before, after))
    found = {
        parameter: first[parameter].reshape(gradient.shape) - second[parameter].reshape(gradient.shape)
        for parameter, gradient in exact.items()
        if parameter in first
    }
    wanted = {f"computed {i}": weight for i, weight in enumerate(computed)}
    of_computed = len(computed)
    for name, values in model.named_parameters():
        if name not in found:
            wanted[name] = values.detach().numpy()
    for parameter, (array, turn) in turned_arrays(first, exact, wanted).items():
        found[parameter] = turn(first[array] - second[array])
        of_computed -= parameter.startswith("computed")
    missing = [parameter for parameter in exact if parameter not in found]
    if computed and of_computed == 0:
        # Does not compare the convolutions' own parameters, from which the weights were computed.
        of_module = lambda name: model.get_submodule(name.rpartition(".")[0])
        missing = [name for name in missing if not isinstance(of_module(name), torch.nn.Conv2d)]
    error_of_gradients, rounding = distance(found, exact), distance({name: own[name] for name in found}, exact)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(4 if error_of_gradients >= 1e-3 else 0):
        perturbed = gradients_of(*noisy(model, pixels, generator), labels)
        rounding = max(rounding, distance({name: perturbed[name] for name in found}, exact))
    for folder in (before, after):
        subprocess.run(["rm", "-rf", folder], check=False)
    return error, error_of_gradients, rounding, missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/onnx-networks"))
    parser.add_argument("--markdown", type=pathlib.Path, help="file for the table")
    parser.add_argument("--dynamo", action="store_true", help="the exporter of torch.export in place of TorchScript's")
    parser.add_argument("models", nargs="*", help="names; default: all of the list")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    options.work.mkdir(parents=True, exist_ok=True)
    programs = options.bin.resolve()
    rows, exported = [], 0
    for name in options.models or NETWORKS:
        try:
            error, gradient, of_rounding, missing = compare(programs, options.work, name, NETWORKS.get(name, 64), options.dynamo)
            agrees = error < 1e-4 and gradient < max(1e-3, 2 * of_rounding) and len(missing) < 30
            missing = [f"combined with constants: {name}" for name in missing]
            rounding = f"by rounding: {of_rounding:.1e}" if gradient >= 1e-3 else ""
            rows.append((name, "equal" if agrees else "differs", f"{error:.1e}", f"{gradient:.1e}", ", ".join(missing[:2]) or rounding))
            exported += 1
        except RuntimeError as failure:
            is_ours = (options.work / f"{name}.0.onnx").exists()
            exported += is_ours
            rows.append((name, "refused" if is_ours else "not exported", "", "", str(failure).split("cannot be trained: ")[-1][:200]))
        except Exception as failure:  # PyTorch's exporter failed, or this version of timm lacks the network
            rows.append((name, "not exported", "", "", f"{type(failure).__name__}: {failure}".splitlines()[0][:120]))
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(rows[-1], (32, 12, 8, 8, 0))), flush=True)
    equal = sum(row[1] == "equal" for row in rows)
    print(f"{equal} of {exported} exported networks are equal")
    if options.markdown:
        lines = ["| network | result | logits | gradients | reason |", "|---|---|---|---|---|"]
        options.markdown.write_text("\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n")
    sys.exit(equal < 0.9 * exported)


if __name__ == "__main__":
    main()
