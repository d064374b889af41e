"""Checks that the Dockerfile and the Apptainer recipe build like jobs/quickstart.sh: all of them take the list of packages
from jobs/install_deps.sh, and the two recipes run the same commands."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = "jobs/install_deps.sh"


def docker_build(text):
    """The base image and the commands of the first stage."""
    stage = text.replace("\\\n", "").split("FROM ")[1]
    run = re.search(r"^RUN (.*)$", stage, re.M)[1]
    return stage.split()[0], [" ".join(command.split()) for command in run.split("&&")]


def apptainer_build(text):
    """The same for an Apptainer recipe."""
    image = re.search(r"^From: (.*)$", text, re.M)[1]
    post = re.search(r"^%post\n((?: .*\n)+)", text, re.M)[1]
    commands = [line.strip() for line in post.splitlines()]
    # Apptainer copies the packages from a folder of the first stage, so the recipe also moves them there.
    return image, [command for command in commands if not command.startswith(("mkdir ", "mv "))]


def problems():
    docker = docker_build((ROOT / "jobs/install/Dockerfile").read_text())
    apptainer = apptainer_build((ROOT / "jobs/install/carillon.def").read_text())
    if docker != apptainer:
        yield f"jobs/install/Dockerfile builds with {docker}, jobs/install/carillon.def with {apptainer}"
    for name, commands in (("Dockerfile", docker[1]), ("carillon.def", apptainer[1])):
        if f"/source/{PACKAGES}" not in commands:
            yield f"jobs/install/{name}: does not run /source/{PACKAGES}"
        installs = [command for command in commands if re.search(r"\binstall\b", command) and PACKAGES not in command]
        if [command.split()[-1] for command in installs] != ["git"]:
            yield f"jobs/install/{name}: has its own list of packages: {installs}; add them to {PACKAGES}"
    if f"\n{PACKAGES}\n" not in (ROOT / "jobs/quickstart.sh").read_text():
        yield f"jobs/quickstart.sh: does not run {PACKAGES}"
    named = (ROOT / "README.md").read_text()
    for text in ("cpack -G DEB", "docker build -f jobs/install/Dockerfile", "apptainer build carillon.sif jobs/install/carillon.def"):
        if text not in named:
            yield f"README.md: does not contain: {text}"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or "the recipes install the same packages and run the same commands")
    sys.exit(1 if found else 0)
