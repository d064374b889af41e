"""Fails if an object that is compiled for one instruction set defines a symbol that other objects may use.

  check_simd_symbols.py ISA OBJECT...

For each inline function, the linker keeps one definition for the whole program. If this definition was compiled for
AVX-512, the program would crash on other processors. Therefore all symbols that such an object exports must be in the
namespace of its instruction set (kernels/shared/simd.h).
"""

import subprocess
import sys


def strangers(isa, path):
    listing = subprocess.run(["nm", "--defined-only", "--extern-only", path], check=True, capture_output=True, text=True)
    symbols = [line.split()[-1] for line in listing.stdout.splitlines()]
    return [symbol for symbol in symbols if f"8carillon{len(isa)}{isa}" not in symbol]


def main():
    isa, paths = sys.argv[1], sys.argv[2:]
    found = [f"{path}: {symbol}" for path in paths for symbol in strangers(isa, path)]
    print("\n".join(found) or f"{len(paths)} objects for {isa}: all symbols are in their own namespace")
    return 1 if found or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
