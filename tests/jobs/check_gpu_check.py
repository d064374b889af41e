"""Tests of jobs/gpu_check.sh --only second (tests/gpu/gpu_visit.py), with stubs of the GPU and of Carillon's programs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "jobs/gpu_check.sh"
sys.path.insert(0, str(ROOT / "tests/acceptance"))

import programs  # noqa: E402
from processes import wait_for  # noqa: E402

# This test program has two tests that pass, one test that fails, and one test that prints a warning, starts a child and
# hangs.
GPU_TEST = """#!/usr/bin/env bash
case $1 in
  --gtest_list_tests) printf 'Suite.\\n  Passes\\n  Fails\\n  Hangs\\nOps/Other.\\n  Passes/One  # GetParam() = One\\n' ;;
  *Passes*) echo '[  PASSED  ] 1 test.' ;;
  *Fails) printf 'ops_test.cpp:3: Failure\\nThe difference is 7\\n'; exit 1 ;;
  *Hangs) echo 'warning: invalid, from: rank 0'; sleep 40 & sleep 40 ;;
esac
"""
GPU_MPI_TEST = "#!/bin/sh\nexit 0\n"
MNIST_TRAIN = "#!/bin/sh\nexit 0\n"
# This program rejects the GPU unless LD_LIBRARY_PATH contains the folder of the Python package of cuDNN.
OLD_CUDNN = """#!/bin/sh
case $LD_LIBRARY_PATH in *cudnn-of-python*) exit 0 ;; esac
echo 'cuDNN 9.14.0 is loaded, but this program was built with 9.19.0: install that version or a later one' >&2
exit 69
"""
MPIRUN = "#!/bin/sh\nexit 0\n"
NVIDIA_SMI = '#!/bin/sh\necho "GPU 0: stub"\n'
NO_GPU = "#!/bin/sh\nexit 9\n"
# This training program trains 40 steps of 25 ms each. If fused attention is switched off, a step takes 50 ms.
TRAIN = f"""#!{sys.executable}
import json, os, pathlib, sys
value = dict(zip(sys.argv[1:], sys.argv[2:]))
seconds = 0.05 if "fused_attention" in os.environ.get("CARILLON_GPU_OFF", "") else 0.025
folder = pathlib.Path(value["--train-dir"])
folder.mkdir()
lines = [json.dumps({{"step": step, "time": step * seconds, "loss": 1}}) for step in range(5, 41, 5)]
(folder / "metrics.jsonl").write_text("\\n".join(lines))
print("captured step: 3 nodes")
"""
# Replaces ncu: writes the output of ncu 2025.3 for steps that consist of a product, a copy and a norm. The profile
# begins in the middle of a step.
NCU = f"""#!{sys.executable}
import csv, sys
value = dict(zip(sys.argv[1:], sys.argv[2:]))
kernels = [
    ("void block_kernel<carillon::LayerNorm<4>>(carillon::LayerNorm<4>)", 2000, 1000000, 3000000),
    ("copy", 500, 0, 0),
    ("nvjet_tst_128x256", 1500500, 2**30, 2**20),
]
with open(value["--log-file"], "w", newline="") as file:
    file.write("==PROF== Connected to process 7 (image_train)\\n==PROF== Disconnected from process 7\\n")
    rows = csv.writer(file, quoting=csv.QUOTE_ALL)
    head = "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC,Section Name"
    rows.writerow([*head.split(","), "Metric Name", "Metric Unit", "Metric Value"])
    for index in range(int(value["--launch-count"])):
        name, time, read, written = kernels[(index + 1) % 3]
        launch = [index, 7, "image_train", "127.0.0.1", name, 1, 7, "(256, 1, 1)", "(64, 1, 1)", 0, "9.0"]
        for metric, unit, count in (
            ("dram__bytes_read.sum", "byte", read),
            ("dram__bytes_write.sum", "byte", written),
            ("gpu__time_duration.sum", "ns", time),
        ):
            rows.writerow([*launch, "Command line profiler metrics", metric, unit, f"{{count:,}}"])
"""
COMPUTE_SANITIZER = "#!/bin/sh\necho '========= Invalid __global__ write'\nexit 1\n"


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.folder = pathlib.Path(self.work.name)
        self.out = self.folder / "out"
        (self.folder / "build/bin").mkdir(parents=True)
        (self.folder / "path").mkdir()
        for name, text in (("gpu_test", GPU_TEST), ("gpu_mpi_test", GPU_MPI_TEST), ("mnist_train", MNIST_TRAIN)):
            self.stub(f"build/bin/{name}", text)
        for name, text in (
            ("nvidia-smi", NVIDIA_SMI), ("compute-sanitizer", COMPUTE_SANITIZER), ("mpirun", MPIRUN),
        ):  # fmt: skip
            self.stub(f"path/{name}", text)

    def stub(self, path, text):
        (self.folder / path).write_text(text)
        (self.folder / path).chmod(0o755)

    def start(self, *options, **variables):
        environment = os.environ | {
            "PATH": f"{self.folder / 'path'}:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "PHASES": "--phases tests --jobs 4",
        } | variables  # fmt: skip
        command = [SCRIPT, "--build", self.folder / "build", "--out", self.out, "--only", "second", *options]
        return subprocess.Popen(
            list(map(str, command)), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def line(self, text):
        """Returns the line of the summary that contains the text; empty if there is none."""
        path = self.out / "summary.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return next((line for line in lines if text in line), "")

    def test_a_test_that_hangs_fails_alone_and_in_time(self):
        began = time.monotonic()
        process = self.start("--seconds", "10")
        output, _ = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 1, output)
        self.assertLess(time.monotonic() - began, 60)
        self.assertIn("The difference is 7", self.line("Suite.Fails"))
        self.assertRegex(self.line("tests: Suite.Hangs"), r"^FAIL.*124: stopped after \d+ s; warning: invalid")
        self.assertIn("4 tests, 2 failed", self.line("4 tests"))
        passed = (self.out / "tests_passed.txt").read_text()
        self.assertIn("PASS  Suite.Passes", passed)
        self.assertIn("PASS  Ops/Other.Passes/One", passed)

    def test_results_are_written_as_they_arrive(self):
        process = self.start("--seconds", "60")
        wait_for(process, lambda: self.line("Suite.Fails"), "a first result")
        running = process.poll() is None
        programs.kill(process)
        self.assertTrue(running)
        self.assertIn("The difference is 7", self.line("Suite.Fails"))

    def test_a_failed_test_runs_again_under_memcheck(self):
        process = self.start("--seconds", "60", PHASES="--phases tests --jobs 4 --memcheck 6 --tests Fails|Passes")
        output, _ = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 1, output)
        self.assertIn("Invalid __global__ write", self.line("memcheck of Suite.Fails"))

    def test_the_time_of_a_step_and_of_its_kernels_is_measured(self):
        for path, text in (("path/ncu", NCU), ("build/bin/image_train", TRAIN), ("build/bin/tfrecord_convert", "#!/bin/sh\n")):
            self.stub(path, text)
        self.stub("build/bin/time_conv_plans_gpu", "#!/bin/sh\necho plan 3 of conv1: 7 us\n")
        options = "--phases speed,kernels,switches,plans --networks vit --switches attention|patch"
        output, _ = self.start("--seconds", "60", PHASES=options).communicate(timeout=100)
        self.assertIn("25000.0 us a step (25000.0 to 25000.0), 10,240 images/s, 3 nodes", self.line("speed: vit"), output)
        self.assertIn("2.000 times the default's time", self.line("fused_attention"))
        self.assertIn("this build has no patch_products", self.line("patch_products"))
        self.assertIn("| all | 3 | 1503.00 | 1074.74 | 4.05 | 0.72 |", self.line("kernels: vit"))
        self.assertIn("| LayerNorm<4> | 1 | 2.00 | 1.00 | 3.00 | 2.00 |", self.line("| LayerNorm"))
        self.assertIn("plan 3 of conv1: 7 us", self.line("plans: time_conv"))

    def test_a_newer_cudnn_of_python_is_used(self):
        package = self.folder / "python/nvidia/cudnn-of-python"
        package.mkdir(parents=True)
        (package / "libcudnn.so.9").touch()
        self.stub("build/bin/mnist_train", OLD_CUDNN)
        self.stub("build/bin/gpu_test", GPU_TEST.replace("*Fails)", "*Fails) echo $LD_LIBRARY_PATH: Failure;"))
        options = "--phases tests --jobs 4 --tests Fails"
        process = self.start("--seconds", "60", PHASES=options, PYTHONPATH=str(self.folder / "python"))
        process.communicate(timeout=100)
        self.assertIn("cudnn-of-python", self.line("Suite.Fails"))

    def test_without_a_gpu_it_says_so(self):
        self.stub("path/nvidia-smi", NO_GPU)
        process = self.start()
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 69)
        self.assertIn("no GPU on this machine", output)


if __name__ == "__main__":
    unittest.main()
