"""Tests measured_plans.py, and the output of time_conv_plans_gpu on the fake GPU.

check_measured_plans.py TIME_CONV_PLANS_GPU
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("measured_plans.py")
PROGRAM = pathlib.Path(sys.argv.pop())
LINES = """rules\t-1\t10.0\t0\teng1_k0=1\tfast
plan\t1\t9.0\t64\teng2_k0=1\tfast
plan\t2\t9.5\t64\teng3_k0=1\tfast
rules\t-1\t11.0\t0\teng1\tnear
rules\t-1\t10.0\t0\teng1\tnear
plan\t0\t9.8\t0\teng2\tnear
product\t-1\t1.0\t0\tcuBLASLt\tnear
# a comment
"""


class MeasuredPlansTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.table, self.output = (pathlib.Path(self.work.name) / name for name in ("table.inc", "output"))

    def written(self, lines):
        self.output.write_text(lines)
        subprocess.run(
            [sys.executable, SCRIPT, "--table", self.table, self.output], check=True, stdout=subprocess.DEVNULL
        )
        return [line for line in self.table.read_text().splitlines() if not line.startswith("//")]

    def test_only_a_plan_that_is_clearly_faster_becomes_an_entry(self):
        self.assertEqual(self.written(LINES), ['{"fast", "eng2_k0=1"},'])

    def test_entries_of_other_convolutions_stay_and_those_that_were_measured_again_are_replaced(self):
        self.table.write_text('{"near", "eng7"},\n{"other", "eng8"},\n')
        self.assertEqual(self.written(LINES), ['{"fast", "eng2_k0=1"},', '{"other", "eng8"},'])

    def test_the_program_prints_a_line_for_each_pass_of_each_different_convolution(self):
        output = subprocess.run(
            [PROGRAM, "cifar10:32:1:bf16"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.splitlines()  # fmt: skip
        lines = [line.split("\t") for line in output if not line.startswith("#")]
        self.assertEqual([line[0] for line in lines], ["rules"] * 10, output)  # image inputs need no gradient
        self.assertEqual(len({line[5] for line in lines}), 5)
        self.assertEqual(self.written("\n".join(output)), [])


if __name__ == "__main__":
    unittest.main()
