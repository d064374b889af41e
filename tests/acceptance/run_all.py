"""Runs all acceptance and fault checks with built programs, and prints one table. Exits with 1 if a check fails.

  tests/acceptance/run_all.py --bin build/bin --data DIRECTORY_OF_MNIST --cifar10 FOLDER_OR_ARCHIVE
  tests/acceptance/run_all.py --bin build/bin --quick --only check_parity

The checks are the files check_*.py in tests/acceptance, tests/faults and tests/slurm. Before the table, the program
lists the checks that cannot run on this machine, with the reason. All checks need numpy and h5py. --data: folder of the
four IDX files of MNIST or of another data set in this format; check_accuracy requires MNIST. --cifar10: the binary
version (default: a small sample).
"""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import programs

TESTS = Path(__file__).resolve().parents[1]
GPU = "needs a GPU; jobs/gpu_check.sh runs it"
NEVER = {
    "check_gpu_accuracy": GPU,
    "check_gpu_parity": GPU,
    "check_images": "is a program with its own options; needs Pillow, onnxruntime and the whole of CIFAR-10",
    "check_onnx_networks": "is a program with its own options; needs PyTorch and timm",
    "check_slurm": "needs root and Slurm; ctest -L slurm runs it",
}
NOT_QUICK = {"check_accuracy": "has no quick form"}
ON_A_FAKE_GPU = "needs --device cuda; ctest runs it on a fake GPU"
ONLY_CUDA = {"check_gpu_lines": ON_A_FAKE_GPU, "check_carillon_gpus": ON_A_FAKE_GPU}
MODULES = {"check_bf16_parity": "torch", "check_cifar_parity": "torch", "check_resnet_parity": "torch"}


def reason_to_omit(name, words):
    """Returns the reason why the check cannot run on this machine with these options; empty if it can run."""
    if name in MODULES and not importlib.util.find_spec(MODULES[name]):
        return f"Python has no {MODULES[name]}"
    if name == "check_hosts":
        made = subprocess.run([sys.executable, TESTS / "faults" / "hosts.py"], capture_output=True, check=False)
        return "cannot create network namespaces; requires root" if made.returncode else ""
    if name in NOT_QUICK and "--quick" in words:
        return NOT_QUICK[name]
    if name in ONLY_CUDA and "cuda" not in words:
        return ONLY_CUDA[name]
    return NEVER.get(name, "")


def main():
    checks = []
    for folder in ("acceptance", "faults", "slurm"):
        sys.path.insert(0, str(TESTS / folder))
        for path in sorted((TESTS / folder).glob("check_*.py")):
            reason = reason_to_omit(path.stem, sys.argv)
            if reason:
                print(f"omitted: {folder}/{path.name}: {reason}", flush=True)
            else:
                checks.append(importlib.import_module(path.stem))
    declares = [module.declare for module in checks if hasattr(module, "declare")]
    programs.main(*(module.check for module in checks), declare=lambda parser: [declare(parser) for declare in declares])


if __name__ == "__main__":
    main()
