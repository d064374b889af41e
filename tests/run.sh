#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, runs every test: of the CPU build, then the fuzz targets,
# and, where there is a CUDA toolkit, those of the build with the GPU tower but for what that runs as the first does (label
# cpu). Tests that need a GPU are jobs/gpu_check.sh's; those under a real Slurm, minutes long, are run by themselves:
# jobs/install_deps.sh --slurm, ctest --test-dir build -L slurm.
#
#   tests/run.sh [CTEST_OPTION...]      e.g. tests/run.sh -R checkpoint
#
# Builds into build-tests/, build-tests-fuzz/ and build-tests-cuda/, or into $CARILLON_BUILD_DIR with those ends.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${CARILLON_BUILD_DIR:-build-tests}

jobs/install_deps.sh --tests
source jobs/mpi_env.sh
# The time that the scripts give ranks to save: they give it themselves where they are tested. Elsewhere it is only waited.
unset OMPI_MCA_odls_base_sigkill_timeout
# The second build compiles few files that the first has not.
export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD

excluded='gpu|slurm'
if ! /usr/bin/python3 tests/faults/hosts.py 2>/dev/null; then
  echo "tests: NOT TESTED: faults between hosts; no namespaces can be made here (are you root?)" >&2
  excluded='gpu|slurm|hosts'
fi

# build_and_test DIRECTORY ON|OFF [CTEST_OPTION...]
build_and_test() {
  local directory=$1 cuda=$2 excluded=$3
  shift 3
  echo "tests: building into $directory, GPU tower $cuda"
  cmake -S . -B "$directory" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCARILLON_TESTS=ON -DCARILLON_WARNINGS_AS_ERRORS=ON \
    -DCARILLON_CUDA="$cuda"
  cmake --build "$directory"
  # MPI tests declare their ranks as PROCESSORS, so ctest never runs more ranks than cores beside one another.
  ctest --test-dir "$directory" --output-on-failure --parallel "$cores" --label-exclude "$excluded" "$@"
}

# build_and_fuzz DIRECTORY [CTEST_OPTION...]
build_and_fuzz() {
  local directory=$1
  shift
  echo "tests: building the fuzz targets into $directory"
  cmake -S . -B "$directory" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
    -DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16 -DCARILLON_FUZZERS=ON -DCARILLON_TESTS=OFF -DCARILLON_CUDA=OFF
  cmake --build "$directory" --target fuzzers
  # All at once: each takes its minute, whatever share of a core that is.
  ctest --test-dir "$directory" --output-on-failure --parallel $((5 * cores)) --label-regex fuzz "$@"
}

build_and_test "$build" OFF "$excluded" "$@"
if ! jobs/install_deps.sh --fuzz; then
  echo "tests: NOT TESTED: the fuzz targets; clang 16 could not be had" >&2
else
  build_and_fuzz "$build-fuzz" "$@"
fi
if ! command -v nvcc >/dev/null && [[ ! -x /usr/local/cuda/bin/nvcc ]]; then
  echo "tests: no CUDA toolkit here: the GPU tower was not built"
elif ! jobs/install_deps.sh --cuda; then
  echo "tests: NOT TESTED: the build with the GPU tower; cudnn-frontend's headers could not be had" >&2
else
  build_and_test "$build-cuda" ON "$excluded|^cpu$" "$@"
fi
