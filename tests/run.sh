#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, runs every test: of the CPU build, and, where there is a
# CUDA toolkit, of the build with the GPU tower. Tests that need a GPU are jobs/gpu_check.sh's.
#
#   tests/run.sh [CTEST_OPTION...]      e.g. tests/run.sh -R checkpoint
#
# Builds into build-tests/ and build-tests-cuda/, or into $CARILLON_BUILD_DIR and $CARILLON_BUILD_DIR-cuda.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${CARILLON_BUILD_DIR:-build-tests}

jobs/install_deps.sh --tests
source jobs/mpi_env.sh

# build_and_test DIRECTORY ON|OFF [CTEST_OPTION...]
build_and_test() {
  local directory=$1 cuda=$2
  shift 2
  echo "tests: building into $directory, GPU tower $cuda"
  cmake -S . -B "$directory" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCARILLON_TESTS=ON -DCARILLON_WARNINGS_AS_ERRORS=ON \
    -DCARILLON_CUDA="$cuda"
  cmake --build "$directory"
  # MPI tests declare their ranks as PROCESSORS, so ctest never runs more ranks than cores beside one another.
  ctest --test-dir "$directory" --output-on-failure --parallel "$cores" --label-exclude gpu "$@"
}

build_and_test "$build" OFF "$@"
if ! command -v nvcc >/dev/null && [[ ! -x /usr/local/cuda/bin/nvcc ]]; then
  echo "tests: no CUDA toolkit here: the GPU tower was not built"
elif ! jobs/install_deps.sh --cuda; then
  echo "tests: NOT TESTED: the build with the GPU tower; cudnn-frontend's headers could not be had" >&2
else
  build_and_test "$build-cuda" ON "$@"
fi
