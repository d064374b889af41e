#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, and runs the tests: all of the CPU build, then the fuzz
# targets, then, if there is a CUDA toolkit, the tests of the build with the GPU tower whose code differs from the CPU
# build's (not label cpu; tests/CMakeLists.txt has the rule). jobs/gpu_check.sh runs the tests that need a GPU. The tests
# under a real Slurm take minutes and are run by hand: jobs/install_deps.sh --slurm, ctest --test-dir build -L slurm.
#
#   tests/run.sh [CTEST_OPTION...]           e.g. tests/run.sh -R checkpoint, tests/run.sh -L '^data$'
#   tests/run.sh --daily [CTEST_OPTION...]   the CPU build, and its tests for daily work: three minutes on two cores
#
# Builds into build-tests/, build-tests-fuzz/ and build-tests-cuda/, or into $CARILLON_BUILD_DIR with these suffixes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${CARILLON_BUILD_DIR:-build-tests}
is_daily=false
if [[ ${1-} == --daily ]]; then
  is_daily=true
  shift
fi

jobs/install_deps.sh --tests
source jobs/mpi_env.sh
# The time that the scripts give ranks to save: they give it themselves where they are tested. Elsewhere it is only waited.
unset OMPI_MCA_odls_base_sigkill_timeout
# The build with CUDA compiles few files that the CPU build has not compiled.
export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD

excluded='gpu|slurm'
if ! /usr/bin/python3 tests/faults/hosts.py 2>/dev/null; then
  echo "tests: NOT TESTED: faults between hosts; no namespaces can be made here (are you root?)" >&2
  excluded='gpu|slurm|hosts'
fi

# build_into DIRECTORY ON|OFF
build_into() {
  echo "tests: building into $1, GPU tower $2"
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCARILLON_TESTS=ON -DCARILLON_WARNINGS_AS_ERRORS=ON -DCARILLON_CUDA="$2"
  cmake --build "$1"
}

# build_fuzz_targets DIRECTORY
build_fuzz_targets() {
  echo "tests: building the fuzz targets into $1"
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
    -DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16 -DCARILLON_FUZZERS=ON -DCARILLON_TESTS=OFF -DCARILLON_CUDA=OFF
  cmake --build "$1" --target fuzzers
}

# run_tests DIRECTORY CTEST_OPTION...: MPI tests declare their ranks as PROCESSORS, so ctest never runs more ranks than cores
# beside one another.
run_tests() {
  local directory=$1
  shift
  ctest --test-dir "$directory" --output-on-failure --parallel "$cores" "$@"
}

build_into "$build" OFF
if $is_daily; then
  run_tests "$build" --label-exclude "$excluded" --label-regex daily "$@"
  exit
fi

others=()
if jobs/install_deps.sh --fuzz; then
  others+=(fuzz)
else
  echo "tests: NOT TESTED: the fuzz targets; clang 16 could not be had" >&2
fi
if ! command -v nvcc >/dev/null && [[ ! -x /usr/local/cuda/bin/nvcc ]]; then
  echo "tests: no CUDA toolkit here: the GPU tower was not built"
elif jobs/install_deps.sh --cuda; then
  others+=(cuda)
else
  echo "tests: NOT TESTED: the build with the GPU tower; cudnn-frontend's headers could not be had" >&2
fi

# The other builds use the time in which the tests wait. At the lowest priority they take none that a test wants.
log=$(mktemp)
set -m  # a process group of its own, which can be ended as a whole
(
  set -e
  renice -n 19 "$BASHPID" >/dev/null
  for other in "${others[@]}"; do
    if [[ $other == fuzz ]]; then build_fuzz_targets "$build-fuzz"; else build_into "$build-cuda" ON; fi
  done
) >"$log" 2>&1 &
builder=$!
set +m
trap 'kill -- "-$builder" 2>/dev/null || true; rm -f "$log"' EXIT
run_tests "$build" --label-exclude "$excluded" "$@"
if ! wait "$builder"; then
  cat "$log" >&2
  exit 1
fi
for other in "${others[@]}"; do
  if [[ $other == fuzz ]]; then
    run_tests "$build-fuzz" --label-regex fuzz "$@"
  else
    run_tests "$build-cuda" --label-exclude "$excluded|^cpu$" "$@"
  fi
done
