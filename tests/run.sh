#!/usr/bin/env bash
# Installs the packages for the tests, builds with warnings as errors, and runs the tests: all tests of the CPU build,
# then the fuzz targets. If there is a CUDA toolkit, the script also builds with the GPU tower. In that build, it runs
# only tests of code that differs from the CPU build, which are the tests without the label cpu (tests/CMakeLists.txt
# explains the rule). jobs/gpu_check.sh runs the tests that require a GPU. The tests with a real Slurm take minutes. Run
# these tests by hand, with jobs/install_deps.sh --slurm and then ctest --test-dir build -L slurm.
#
#   tests/run.sh [CTEST_OPTION...]           e.g. tests/run.sh -R checkpoint, tests/run.sh -L '^data$'
#   tests/run.sh --daily [CTEST_OPTION...]   only the CPU build and its tests for daily work: three minutes on two cores
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
# mpi_env.sh gives ranks time to save after a signal. Scripts under test set this variable themselves. All other tests
# need no such time: they would wait for it in vain.
unset OMPI_MCA_odls_base_sigkill_timeout
# Most files are compiled in the same way in both builds, so ccache saves most of the second build.
export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD

excluded='gpu|slurm'
if ! /usr/bin/python3 tests/faults/hosts.py 2>/dev/null; then
  echo "tests: NOT TESTED: faults between hosts; cannot create network namespaces (requires root)" >&2
  excluded='gpu|slurm|hosts'
fi

# build_into DIRECTORY ON|OFF TARGET
build_into() {
  echo "tests: building into $1, GPU tower $2"
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCARILLON_TESTS=ON -DCARILLON_WARNINGS_AS_ERRORS=ON -DCARILLON_CUDA="$2"
  cmake --build "$1" --target "$3"
}

# build_fuzz_targets DIRECTORY
build_fuzz_targets() {
  echo "tests: building the fuzz targets into $1"
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
    -DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16 -DCARILLON_FUZZERS=ON -DCARILLON_TESTS=OFF -DCARILLON_CUDA=OFF
  cmake --build "$1" --target fuzzers
}

# run_tests DIRECTORY CTEST_OPTION...: MPI tests declare their ranks as PROCESSORS, so that ctest never runs more ranks
# than there are cores at the same time.
run_tests() {
  local directory=$1
  shift
  ctest --test-dir "$directory" --output-on-failure --parallel "$cores" "$@"
}

build_into "$build" OFF all
if $is_daily; then
  run_tests "$build" --label-exclude "$excluded" --label-regex daily "$@"
  exit
fi

others=()
if jobs/install_deps.sh --fuzz; then
  others+=(fuzz)
else
  echo "tests: NOT TESTED: the fuzz targets; clang 16 could not be installed" >&2
fi
if ! command -v nvcc >/dev/null && [[ ! -x /usr/local/cuda/bin/nvcc ]]; then
  echo "tests: no CUDA toolkit on this machine: the GPU tower is not built"
elif jobs/install_deps.sh --cuda; then
  others+=(cuda)
else
  echo "tests: NOT TESTED: the build with the GPU tower; the headers of cudnn-frontend could not be installed" >&2
fi

# While the tests of the CPU build run, the other builds and their tests without MPI run at the same time. They have the
# lowest priority, so that they delay no test. Tests with MPI detect ranks that stall, so they run alone.
log=$(mktemp)
set -m  # runs in a separate process group, so that the trap below can end all of its processes
(
  set -e
  renice -n 19 "$BASHPID" >/dev/null
  for other in "${others[@]}"; do
    if [[ $other == fuzz ]]; then
      build_fuzz_targets "$build-fuzz"
      run_tests "$build-fuzz" --label-regex fuzz "$@"
    else
      build_into "$build-cuda" ON differing_tests
      run_tests "$build-cuda" --label-exclude "$excluded|^cpu$|^mpi$" "$@"
    fi
  done
) >"$log" 2>&1 &
others_job=$!
set +m
trap 'kill -- "-$others_job" 2>/dev/null || true; rm -f "$log"' EXIT
run_tests "$build" --label-exclude "$excluded" "$@"
if ! wait "$others_job"; then
  cat "$log" >&2
  exit 1
fi
grep -E '^tests: |tests passed|^Total Test time' "$log" || true  # prints nothing if there are no other builds
if [[ " ${others[*]} " == *" cuda "* ]]; then
  run_tests "$build-cuda" --label-exclude "$excluded|^cpu$" --label-regex '^mpi$' "$@"
fi
