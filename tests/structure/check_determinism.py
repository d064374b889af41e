#!/usr/bin/env python3
"""Checks in the sources that sums on a GPU have a fixed order. Covers the operations of cuDNN, the matrix products of
cuBLASLt, and the atomic operations in Carillon's kernels.

    tests/structure/check_determinism.py HEADERS [SOURCES]

HEADERS is the folder with cudnn_frontend.h, SOURCES the folder with kernels/ and src/. For some operations, the headers
have a setter that requests a deterministic algorithm. OPERATIONS must list each operation that the sources use. Other
tests run the code: CudnnGraphCuda tests that the requests reach cuDNN, and tests/kernels/*_cuda_kernels_test.cpp test
that the bits of a kernel do not depend on the order of its blocks (emulate has two orders).
"""
import pathlib
import re
import sys

GRAPH = "kernels/shared/cudnn_graph.h"
NOTE_ONLY = None  # no setter exists: only plans with the note NONDETERMINISTIC are excluded
OPERATIONS = {  # operation: (class of its attributes, setter that makes it deterministic)
    "conv_fprop": ("Conv_fprop_attributes", NOTE_ONLY),
    "conv_dgrad": ("Conv_dgrad_attributes", NOTE_ONLY),
    "conv_wgrad": ("Conv_wgrad_attributes", NOTE_ONLY),
    "pointwise": ("Pointwise_attributes", NOTE_ONLY),
    "sdpa": ("SDPA_attributes", NOTE_ONLY),
    "sdpa_backward": ("SDPA_backward_attributes", "set_deterministic_algorithm"),
}
# The only atomic operation increments a counter, by which a block detects that it is the last block of its launch. This
# block then adds the sums of all blocks in order.
ATOMICS = {"include/carillon/core/host_device.h": "atomicAdd(counter, 1u)"}


def frontend(headers):
    """Returns two dictionaries for the classes of attributes: {class: setter that requests a deterministic algorithm},
    and {class: functions that add an operation with these attributes}."""
    text = "".join(path.read_text(errors="replace") for path in sorted((headers / "cudnn_frontend").rglob("*.h")))
    setters = {}
    for name, body in re.findall(r"^class (\w+_attributes) : public Attributes<\w+> {(.*?)^};", text, re.M | re.S):
        found = re.search(r"\b(set_\w*deterministic\w*)\(", body)
        setters[name] = found[1] if found else NOTE_ONLY
    functions = re.findall(r"\b(\w+)\([^(){};]*,\s*(?:const\s+)?(\w+_attributes)(?:\s+const)?\s*&*\s*\w*\)", text)
    return setters, {name for name, attributes in functions if attributes in setters}


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def function(text, name):
    """Returns the source of an inline function. The function ends at the first brace in the first column."""
    found = re.search(rf"\b{name}\(.*?^}}", text, re.M | re.S)
    return found[0] if found else ""


def of_cudnn(sources, setters, functions):
    for name, (attributes, setter) in OPERATIONS.items():
        if name not in functions or attributes not in setters:
            yield f"cuDNN's frontend has no {name} with {attributes}: correct OPERATIONS"
        elif setters[attributes] != setter:
            yield f"{name}: the frontend has {setters[attributes]}, OPERATIONS has {setter}"
    listed = {attributes for attributes, _ in OPERATIONS.values()}
    for path, text in sources.items():
        if not re.search(r"cudnn_frontend|cudnn_graph\.h", text):
            continue
        for name in sorted(set(re.findall(r"(?:\.|->)\s*(\w+)\(", text)) & functions - set(OPERATIONS)):
            yield f"{path}: operation {name} is not in OPERATIONS of this test"
        for name in sorted(set(re.findall(r"\b(\w+_attributes)\b", text)) & set(setters) - listed):
            yield f"{path}: {name} is not in OPERATIONS of this test"
        requested = re.sub(r"\bdeterministic<(?:\w+::)*\w+_attributes>\(\)", "", text)
        for name in sorted(set(re.findall(r"\b(\w+_attributes)\b", requested)) & set(setters)):
            yield f"{path}: make {name} by deterministic<{name}>() ({GRAPH})"
        if path == GRAPH:
            continue
        for name in sorted(set(re.findall(r"\b(set_\w*deterministic\w*)\(", text))):
            yield f"{path}: leave {name} to deterministic() ({GRAPH})"
        plans = r"\b(create_execution_plans?|select_numeric_notes|deserialize)\(|(?:\.|->)\s*(build)\("
        for name in sorted({a or b for a, b in re.findall(plans, text)}):
            yield f"{path}: {name} bypasses propose_plans, which deselects NONDETERMINISTIC ({GRAPH})"
    graph = sources.get(GRAPH, "")
    for setter in sorted(set(setters.values()) - {NOTE_ONLY}):
        if f"attributes.{setter}(true);" not in function(graph, "deterministic"):
            yield f"{GRAPH}: deterministic() does not call {setter}"
    order = [function(graph, "propose_plans").find(words) for words in (
        "create_execution_plans(", "push_back(cudnn_frontend::NumericalNote_t::NONDETERMINISTIC);",
        "deselect_numeric_notes(unwanted)",
    )]  # fmt: skip
    if -1 in order or order != sorted(order):
        yield f"{GRAPH}: propose_plans does not deselect NONDETERMINISTIC after it requested plans"


def of_cublaslt(sources):
    """Yields an error unless all products use an algorithm of cuBLASLt's heuristic, and the preferences of the
    heuristic forbid sums in place and sums in the type of the result."""
    product, call = "kernels/shared/matrix_product_cuda.cpp", r"\bcublas(LtMatmul|LtMatmul(Algo|Preference)\w+|\w*[gG]emm\w*)\("
    for path, text in sources.items():
        if path != product and re.search(call, text):
            yield f"{path}: calls cuBLAS without the preferences of {product}"
    preference = function(sources[product], "make_preference")
    mask = r"PREF_REDUCTION_SCHEME_MASK,\s*static_cast<std::uint32_t>\(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE\)\);"
    if not re.search(mask, preference) or sources[product].count("REDUCTION_SCHEME_MASK") != 1:
        yield f"{product}: make_preference must allow REDUCTION_SCHEME_COMPUTE_TYPE only"
    choices = re.findall(r"cublasLtMatmulAlgoGetHeuristic\([^;]*;", sources[product])
    if len(choices) != 1 or "preference.get()" not in choices[0] or "= make_preference(" not in sources[product]:
        yield f"{product}: choose every algorithm with the preferences of make_preference"
    if not re.search(r"cublasLtMatmul\([^;]*&algorithm_", sources[product]):
        yield f"{product}: cublasLtMatmul must run the chosen algorithm"


def of_own_kernels(sources):
    atomic = r"\batomic[A-Z]\w*\([^;]*?\)|\b__nv_atomic\w*\(|\bcuda::(?:std::)?atomic\w*|\"(?:red|atom)\.[^\"]*"
    for path, text in sources.items():
        for found in re.findall(atomic, text):
            if ATOMICS.get(path) != found:
                yield f"{path}: {found}: sum in a fixed order instead, with fetch_increment for the last block"


def main():
    headers = pathlib.Path(sys.argv[1])
    root = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parents[2]
    sources = {}
    for folder in ("include", "src", "kernels"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                sources[path.relative_to(root).as_posix()] = without_comments(path.read_text())
    setters, functions = frontend(headers)
    found = [*of_cudnn(sources, setters, functions), *of_cublaslt(sources), *of_own_kernels(sources)]
    print("\n".join(found))
    print(f"{len(OPERATIONS)} operations of cuDNN, {len(setters)} classes of attributes: {len(found)} faults")
    return 1 if found or not setters else 0


if __name__ == "__main__":
    sys.exit(main())
