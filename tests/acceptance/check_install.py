"""The files that `cmake --install` installs work without the sources, also after they were moved. Users can build their
own programs with them."""

import contextlib
import re
import struct
import subprocess
import zlib
from pathlib import Path

import programs
from programs import ProgramFailed, Result, same_bits

ROOT = Path(__file__).resolve().parents[2]
MAN_LIST = ("mnist_train", "cifar10_eval", "image_train", "carillon_predict", "checkpoint_tool", "tfrecord_convert")

MODULE_SYSTEMS = {
    "Environment Modules": ("environment-modules", "usr/lib/*/modulecmd.tcl"),
    "Lmod": ("lmod", "usr/share/lmod/lmod/libexec/lmod"),
}
MODULE_FOLDERS = (Path("/usr/local/share/carillon-tests"), Path("~/.local/share/carillon-tests"))


def check(context):
    """an installation"""
    prefix = context.directory("prefix")
    build = context.binaries.parent
    with _own_record(build):
        _run("cmake", "--install", build, "--prefix", prefix)
        built = sorted(path.name for path in (prefix / "bin").iterdir())
        yield _all_have_documents(prefix, built)
        yield _pages_are_well_formed(prefix)
        yield _pages_tell_all_options(prefix)
        yield from _completes(prefix)
        yield _knows_no_build(context, prefix)
        yield from _modules(context, prefix)
        yield _script(context, prefix)
        yield _all_headers(context, prefix)
        yield from _own_model(context, prefix)
        yield from _uninstall(build, prefix)


@contextlib.contextmanager
def _own_record(build):
    """Hides the list of the files that the user has installed from this build folder. Otherwise, the target uninstall
    would remove these files."""
    record, hidden = build / "installed_files.txt", build / "installed_files.hidden"
    if record.exists() and not hidden.exists():
        record.rename(hidden)
    try:
        yield
    finally:
        record.unlink(missing_ok=True)
        if hidden.exists():
            hidden.rename(record)


def _uninstall(build, prefix):
    command = ["cmake", "--build", build, "--target", "uninstall"]
    installed = [path for path in prefix.rglob("*") if path.is_file()]
    own = [prefix / "bin/other", prefix / "share/carillon/jobs/recipes/own.cfg"]
    for path in own:
        path.touch()
    said = _run(*command)
    left = [path for path in prefix.rglob("*") if path.is_file()]
    folders = sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_dir())
    expected = ["bin", "include", "lib", "lib/cmake", "share", "share/bash-completion", "share/bash-completion/completions"]
    expected += ["share/carillon", "share/carillon/jobs", "share/carillon/jobs/recipes"]
    expected += ["share/doc", "share/man", "share/man/man1", "share/modulefiles"]
    reported = f"uninstall: removed {len(installed)} files from {prefix}\n" in said.stdout + said.stderr
    wrong = "" if sorted(left) == sorted(own) else f"{len(left)} files: {left[:3]}"
    wrong = wrong or ("" if folders == expected else f"{folders}") or ("" if reported else said.stdout + said.stderr)
    yield Result("uninstall: removes the installed files only", not wrong, wrong or f"{len(installed)} files")

    again = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60)
    text = " ".join((again.stdout + again.stderr).split())
    refused = again.returncode != 0 and "uninstall: nothing is installed from this build folder" in text
    yield Result("uninstall: without an installation it fails", refused, text[:200])

    for path in own:
        path.unlink()
    for component in ("programs", "development"):
        _run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    _run(*command)
    yield Result("uninstall: removes a prefix that nobody else uses", not prefix.exists(), f"{prefix}")


def _run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, **options)
    if done.returncode:
        raise ProgramFailed(f"{' '.join(map(str, command))}: {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
    return done


def _all_have_documents(prefix, built):
    places = {"man": prefix / "share/man/man1", "bash": prefix / "share/bash-completion/completions"}
    found = {kind: sorted(path.name.removesuffix(".1") for path in place.iterdir()) for kind, place in places.items()}
    wrong = "" if built and all(names == built for names in found.values()) else f"{built}, {found}"
    return Result("installed: every program has a man page and a completion", not wrong, wrong or " ".join(built))


def _pages_are_well_formed(prefix):
    pages = sorted((prefix / "share/man/man1").iterdir())
    complaints = [_run("groff", "-man", "-ww", "-Tutf8", "-z", page).stderr for page in pages]
    said = "".join(complaints)
    return Result("installed: groff formats the man pages without a warning", not said, said[:200] or f"{len(pages)} pages")


def _pages_tell_all_options(prefix):
    wrong, count = "", 0
    for program in MAN_LIST:
        told = set(re.findall(r"^  --([a-z0-9-]+)", _run(prefix / "bin" / program, "--help").stdout, re.M))
        page = _run("groff", "-man", "-Tascii", "-P-cbou", prefix / f"share/man/man1/{program}.1").stdout
        missing = sorted(name for name in told if not re.search(rf"^ +--{name}\b", page, re.M))
        count += len(told)
        sections = [part for part in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS") if f"\n{part}\n" not in page]
        if missing or sections or not told:
            wrong = f"{program}: {missing} {sections}"
    return Result("installed: man pages describe every option of --help", not wrong, wrong or f"{count} options")


def _completes(prefix):
    def completed(program, *words):
        quoted = " ".join(f"'{word}'" for word in (program, *words))
        script = f"source {prefix}/share/bash-completion/completions/{program}; COMP_WORDS=({quoted}); "
        script += f'COMP_CWORD={len(words)}; _carillon_{program}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        return _run("bash", "-c", script).stdout.split()

    cases = {
        "an option's name": (("mnist_train", "--micro"), ["--micro-batch"]),
        "a choice": (("mnist_train", "--device", "c"), ["cpu", "cuda"]),
        "a choice after =": (("mnist_train", "--model", "=", "le"), ["lenet"]),
        "a choice directly after =": (("image_train", "--preprocessing", "="), ["torchvision", "inception", "clip", "unit", "bytes", "tensorflow"]),
        "a command": (("checkpoint_tool", "e"), ["export-npz", "export"]),
        "an option of a tool": (("tfrecord_convert", "images", "--resi"), ["--resize-shorter"]),
        "nothing, if files are expected": (("mnist_train", "--data", "x"), []),
    }
    for name, (words, expected) in cases.items():
        found = completed(*words)
        yield Result(f"installed: bash completes {name}", found == expected, f"{' '.join(words)} -> {found}")


def _knows_no_build(context, prefix):
    """Checks that no installed text file contains a path of the sources or of the build."""
    named = []
    for path in prefix.rglob("*"):
        if not path.is_file() or path.suffix == ".a" or path.parent.name == "bin":
            continue
        text = path.read_bytes()
        named += [str(path) for place in (ROOT, context.binaries.parent) if f"{place}/".encode() in text]
    return Result("installed: no text names the sources or the build", not named, " ".join(named[:3]) or "none")


def _modules(context, prefix):
    """Loads the environment module in both module systems, Lmod and Environment Modules, which jobs/install_deps.sh
    --tests has unpacked."""
    local = context.directory("local")  # contains the manuals of the simulated system, which man finds through PATH
    (local / "bin").mkdir(parents=True)
    (local / "share/man/man1").mkdir(parents=True)
    (local / "share/man/man1/of_the_system.1").write_text(".TH of_the_system 1\n")
    for name, (folder, program) in MODULE_SYSTEMS.items():
        found = [path for place in MODULE_FOLDERS for path in place.expanduser().glob(f"{folder}/{program}")]
        if not found:
            yield Result(f"module: {name}", False, "is not unpacked: run jobs/install_deps.sh --tests")
            continue
        command = f"{'tclsh8.6 ' if found[0].suffix == '.tcl' else ''}{found[0]}"
        for manpath in (None, "/opt/other/man:", "/opt/other/man"):
            yield _module(context, prefix, local, name, command, manpath)


def _module(context, prefix, local, name, command, manpath):
    script = f"""
        module() {{ eval "$({command} bash "$@")"; }}
        report() {{
          printf '%s\n' "PATH $PATH" "MANPATH ${{MANPATH-unset}}" "CMAKE_PREFIX_PATH ${{CMAKE_PREFIX_PATH-unset}}" \
            "CARILLON_ROOT ${{CARILLON_ROOT-unset}}" "program $(command -v carillon_predict)" \
            "manual $(man -w carillon_predict 2>/dev/null)" "title $(man carillon_predict 2>/dev/null | sed -n 1p)" \
            "other $(man -w of_the_system 2>/dev/null)" ""
        }}
        module use {prefix}/share/modulefiles && report && module load carillon && report && module unload carillon && report
    """
    environment = {"PATH": f"{local}/bin:/usr/local/bin:/usr/bin:/bin", "HOME": str(context.work), "MANPAGER": "cat"}
    if manpath is not None:
        environment["MANPATH"] = manpath
    case = "without MANPATH" if manpath is None else f"with MANPATH={manpath}"
    title = f"module: {name} loads and unloads {case}"
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    if done.returncode or done.stderr:
        return Result(title, False, done.stderr[-300:])
    before, loaded, after = (
        dict(line.split(" ", 1) for line in report.splitlines()) for report in done.stdout.removesuffix("\n\n").split("\n\n")
    )
    expected = {
        "CMAKE_PREFIX_PATH": str(prefix),
        "CARILLON_ROOT": str(prefix),
        "program": str(prefix / "bin/carillon_predict"),
        "manual": str(prefix / "share/man/man1/carillon_predict.1"),
        "other": before["other"],  # the module must not hide the system's manuals
    }
    wrong = [f"{key} {loaded[key]}" for key in expected if loaded[key] != expected[key]]
    wrong += [] if loaded["title"].lower().startswith("carillon_predict(1)") else [f"title {loaded['title']}"]
    if manpath != "/opt/other/man" and before["other"] != str(local / "share/man/man1/of_the_system.1"):
        wrong.append(f"the system's manual is not visible before: {before}")
    for report in (before, after):
        report["MANPATH"] = re.sub("::$", ":", report["MANPATH"])  # in Lmod, two colons mean the same as one
    wrong += [f"{key} {after[key]} after unload" for key in before if before[key] != after[key]]
    return Result(title, not wrong, "; ".join(wrong) or loaded["MANPATH"])


def _script(context, prefix):
    """The installed jobs/single_node.sh must find the installed programs."""
    data, run = context.small_set(200), context.directory("script")
    command = [prefix / "share/carillon/jobs/single_node.sh", "--data", data / "train-*", "--train-dir", run]
    command += ["--max-steps", 3, "--batch-size", 10, "--device", "cpu"]
    done = _run(*command, env={**context.environment(), "RANKS": "2"})
    found = f"{prefix}/share/carillon/../../bin/mnist_train" in done.stderr and (run / "model.ckpt-3.h5").exists()
    return Result("installed: single_node.sh starts the installed program", found, done.stderr[-200:])


def _all_headers(context, prefix):
    """Compiles one source for each installed header. The sources of Carillon are not in the include path."""
    (folder,) = (prefix / "include").iterdir()
    headers = sorted(path.relative_to(folder) for path in folder.rglob("*.h"))
    public = len(list((ROOT / "include").rglob("*.h")))
    project = context.directory("headers")
    project.mkdir()
    (project / "all.cpp").write_text("".join(f"#include <{header}>\n" for header in headers) + "int main() {}\n")
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(headers LANGUAGES C CXX)\n"
        "find_package(Carillon 0.1 REQUIRED)\nfind_package(Carillon 0.1 REQUIRED)\n"
        "add_library(headers OBJECT all.cpp)\ntarget_link_libraries(headers PRIVATE Carillon::carillon)\n"
    )
    _run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    _run("cmake", "--build", project / "build")
    return Result("installed: every header compiles alone", len(headers) >= public, f"{len(headers)} headers")


def _own_model(context, prefix):
    """Builds the installed example docs/user-guide/your-own-model against the installed library, and runs it."""
    source, build = prefix / "share/doc/carillon/docs/user-guide/your-own-model", context.directory("own")
    _run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    _run("cmake", "--build", build)
    data = build / "data"
    _run(build / "draw_shapes", data)
    inspected = _run(prefix / "bin/tfrecord_inspect", "--verify", data / "test-0.tfrecord").stdout
    yield Result("own model: tfrecord_inspect reads its records", "600 records" in inspected, inspected.split("\n")[1])

    def train(run, ranks, *options):
        launcher = ["mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none"]
        command = [*launcher, build / "shapes_train", "--data", data / "train-*", "--device", "cpu", "--train-dir", run]
        _run(*command, "--global-batch", 100, "--micro-batch", 25, *options, env=context.environment())

    one, four = context.directory("one"), context.directory("four")
    train(one, 1)
    train(four, 4, "--max-steps", 150)
    train(four, 2, "--max-steps", 300)
    differs = same_bits(one / "model.ckpt-300.h5", four / "model.ckpt-300.h5")
    yield Result("own model: a run of 1 rank equals a run of 4, then 2 ranks", not differs, differs or "equal")
    told = _run(build / "shapes_eval", "--data", data / "test-*", "--checkpoint", one, env=context.environment()).stdout
    precision = float(re.search(r"precision @ 1 = ([0-9.]+) ", told)[1])
    yield Result("own model: it learns", precision > 0.9, told.strip().split("\n")[-1])
    yield from _own_network_in_our_programs(context, prefix, one, data, told)
    yield from _own_decoder(context, prefix, build)
    wrong = subprocess.run([build / "shapes_train", "--modle", "x"], env=context.environment(), capture_output=True, text=True)
    ok = wrong.returncode == 64 and "shapes_train: rank 0 on " in wrong.stderr and "did you mean --model?" in wrong.stderr
    yield Result("own model: it has Carillon's options and messages", ok, wrong.stderr.strip()[-100:])


def _grey_png(rows):
    """Returns a PNG file of grey pixels with 8 bits."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = b"".join(b"\0" + bytes(row) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def _own_network_in_our_programs(context, prefix, run, data, expected):
    """Runs Carillon's programs on a network and on record keys that are not built in. The checkpoint describes the
    network and the keys."""
    programs_of = prefix / "bin"
    for program in (["mnist_eval"], ["cifar10_eval"], ["carillon", "evaluate"]):
        place = [run] if "evaluate" in program else ["--checkpoint", run]
        told = _run(programs_of / program[0], *program[1:], *place, "--data", data / "test-*", env=context.environment()).stdout
        yield Result(f"own model: {' '.join(program)} evaluates it", told == expected, told.strip().split("\n")[-1])
    exported = _run(programs_of / "carillon", "export", run, "--onnx", data / "shapes.onnx").stdout
    yield Result("own model: carillon export writes it as ONNX", "shapes.onnx: shapes of" in exported, exported.strip())
    picture = data / "square.png"
    picture.write_bytes(_grey_png([[255 if 8 <= row < 16 and 8 <= column < 16 else 40 for column in range(24)] for row in range(24)]))
    told = _run(programs_of / "carillon", "predict", run, picture).stdout
    yield Result("own model: carillon predict reads a picture", "square.png  0 " in told, told.strip())


def _own_decoder(context, prefix, build):
    """Runs a user's program that has its own decoder, task and metric. Carillon's programs can export the program's
    network, but cannot read its records."""
    data, run = build / "numbers", context.directory("numbers")
    _run(build / "draw_numbers", data)
    _run(build / "numbers_train", "--data", data / "train-*", "--device", "cpu", "--train-dir", run, env=context.environment())
    told = _run(build / "numbers_eval", "--data", data / "test-*", "--checkpoint", run, env=context.environment()).stdout
    yield Result("own decoder: its program evaluates it", "mean absolute error = 0.0" in told, told.strip().split("\n")[-1])
    exported = _run(prefix / "bin/carillon", "export", run, "--onnx", build / "numbers.onnx").stdout
    yield Result("own decoder: carillon export writes it as ONNX", "numbers.onnx: linear of" in exported, exported.strip())
    refused = subprocess.run(
        [prefix / "bin/mnist_eval", "--data", data / "test-*", "--checkpoint", run], env=context.environment(),
        capture_output=True, text=True)
    ok = refused.returncode == 65 and "only the program that trained it can read its records" in refused.stderr
    yield Result("own decoder: mnist_eval refuses its records", ok, refused.stderr.strip()[-120:])


if __name__ == "__main__":
    programs.main(check)
