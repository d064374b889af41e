"""Checks that every test has one label for its kind and at least one label for its part, and that no label is contained
in another label.

  tests/structure/check_labels.py CTEST BUILD_DIRECTORY

tests/CMakeLists.txt explains the labels. If a label were contained in another one, `ctest -L` would select too many
tests.
"""

import json
import pathlib
import subprocess
import sys

KINDS = {"unit", "mpi", "acceptance", "faults", "fuzz"}
OTHERS = {"daily", "cpu", "slurm", "hosts"}
PARTS = {path.name for path in pathlib.Path(__file__).resolve().parents[1].iterdir() if path.is_dir()} - KINDS - OTHERS


def main(ctest, build):
    listed = subprocess.run(
        [ctest, "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True
    )  # fmt: skip
    tests = json.loads(listed.stdout)["tests"]
    wrong, seen = [], set()
    for test in tests:
        labels = next((entry["value"] for entry in test["properties"] if entry["name"] == "LABELS"), [])
        seen |= set(labels)
        unknown = set(labels) - KINDS - OTHERS - PARTS
        if len(KINDS & set(labels)) != 1 or not PARTS & set(labels) or unknown:
            wrong.append(f"{test['name']}: {', '.join(labels) or 'no labels'}")
    wrong += [f"label {one} is a part of label {other}" for one in seen for other in seen if one in other and one != other]
    print("\n".join(wrong) or f"{len(tests)} tests have their labels")
    sys.exit(1 if wrong or not tests else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
