#!/usr/bin/env bash
# Runs a libFuzzer target on its corpus for a given time: fuzz.sh PROGRAM CORPUS.tar.gz SECONDS
#
# The environment variable CARILLON_FUZZ_SECONDS overrides SECONDS. CARILLON_FUZZ_CORPUS names a folder in which the
# script keeps the corpus, with the inputs that fuzzing adds. If the target fails on an input, the script prints the
# input in base64, and prints the folder of the input's file.
set -euo pipefail
program=$1 corpus=$2 seconds=${CARILLON_FUZZ_SECONDS:-$3}

work=$(mktemp -d "${TMPDIR:-/tmp}/carillon-fuzz-XXXXXX")
mkdir "$work/findings"
grown=${CARILLON_FUZZ_CORPUS:+$CARILLON_FUZZ_CORPUS/$(basename "$corpus" .tar.gz)}
grown=${grown:-$work/corpus}
mkdir -p "$grown"
tar -xzf "$corpus" -C "$grown"

# Like the system's allocator, the allocator returns null for huge sizes.
status=0
ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=10${ASAN_OPTIONS:+:$ASAN_OPTIONS} nice -n 5 "$program" "$grown" \
  -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
  -artifact_prefix="$work/findings/" || status=$?

if ((status == 0)); then
  rm -rf "$work"
  exit 0
fi
for input in "$work"/findings/*; do
  if [[ -e $input ]]; then
    echo "fuzz: $(basename "$program") found $input (again: $program FILE), in base64:"
    base64 "$input"
  fi
done
exit "$status"
