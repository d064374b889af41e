"""Checks the Debian packages that cpack makes: maintainer, copyright, changelog and compressed man pages."""

import gzip
import re
import subprocess
from pathlib import Path

import programs
from programs import ProgramFailed, Result

ROOT = Path(__file__).resolve().parents[2]
MAINTAINER = "A Person <person@carillon.example>"


def check(context):
    """the Debian packages"""
    packages = context.directory("packages")
    made = _cpack(context, packages, MAINTAINER)
    if made.returncode:
        raise ProgramFailed(f"cpack: {(made.stderr or made.stdout)[-400:]}")
    for name in ("carillon", "carillon-dev"):
        (package,) = packages.glob(f"{name}_*.deb")
        root = context.directory(name)
        _run("dpkg-deb", "-x", package, root)
        yield from _policy(name, package, root)
    refused = _cpack(context, context.directory("refused"), "nobody")
    reason = " ".join(refused.stderr.split())
    yield Result("packages: a maintainer without an address is rejected",
                 refused.returncode != 0 and "configure with -DCARILLON_MAINTAINER='NAME <ADDRESS>', not 'nobody'" in reason,
                 reason[:200])  # fmt: skip


def _cpack(context, packages, maintainer):
    config = context.binaries.parent / "CPackConfig.cmake"
    command = ["cpack", "--config", config, "-G", "DEB", "-B", packages, "-D", f"CPACK_CARILLON_MAINTAINER={maintainer}"]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)


def _run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise ProgramFailed(f"{' '.join(map(str, command))}: {done.stderr[-300:]}")
    return done.stdout.strip()


def _policy(name, package, root):
    documents = root / "usr/share/doc" / name
    found = _run("dpkg-deb", "-f", package, "Maintainer")
    yield Result(f"packages: {name} has the maintainer", found == MAINTAINER, found)
    text = (documents / "copyright").read_text()
    states = ("the owner of Carillon" in text, "Licence: none yet" in text)
    yield Result(f"packages: {name} states that there is no licence", all(states), f"{states}")

    packed = (documents / "changelog.gz").read_bytes()
    best_without_name_and_time = packed[3:9] == bytes((0, 0, 0, 0, 0, 2))  # flags, time and level of gzip -9n
    plain = root / "changelog"
    plain.write_bytes(gzip.decompress(packed))
    fields = {field: _run("dpkg-parsechangelog", "-l", plain, "-S", field) for field in ("Source", "Version", "Maintainer")}
    expected = {"Source": name, "Version": _run("dpkg-deb", "-f", package, "Version"), "Maintainer": MAINTAINER}
    yield Result(f"packages: dpkg reads the changelog of {name}", fields == expected and best_without_name_and_time, f"{fields}")
    date = _run("dpkg-parsechangelog", "-l", plain, "-S", "Date")
    committed = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%cD"], capture_output=True, text=True)
    same = date == committed.stdout.strip() if not committed.returncode else re.match(r"\w{3}, \d+ \w{3} \d{4} ", date)
    yield Result(f"packages: the changelog of {name} has the date of the commit", bool(same), date)

    if name == "carillon":
        pages = sorted(path.name for path in (root / "usr/share/man/man1").iterdir())
        built = sorted(f"{path.name}.1.gz" for path in (root / "usr/bin").iterdir())
        yield Result("packages: every program has a compressed man page", pages == built and bool(built), " ".join(pages))
        changes = root / "usr/share/doc/carillon/docs/CHANGELOG.md"
        version = expected["Version"]
        yield Result("packages: CHANGELOG.md describes the version", f"## {version}\n" in changes.read_text(), version)


if __name__ == "__main__":
    programs.main(check)
