#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, runs every test.
#
#   tests/run.sh [CTEST_OPTION...]      e.g. tests/run.sh -R checkpoint
#
# Builds into build-tests/, or into $CARILLON_BUILD_DIR.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${CARILLON_BUILD_DIR:-build-tests}

jobs/install_deps.sh --tests
source jobs/mpi_env.sh
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCARILLON_TESTS=ON -DCARILLON_WARNINGS_AS_ERRORS=ON
cmake --build "$build"
# MPI tests declare their ranks as PROCESSORS, so ctest never runs more ranks than cores beside one another.
ctest --test-dir "$build" --output-on-failure --parallel "$cores" "$@"
