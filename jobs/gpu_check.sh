#!/usr/bin/env bash
# Runs all checks that require a GPU: tests, parity with the CPU tower, sanitizers, speed. Prints a line for each check.
# The exit code is 0 if all checks passed, 1 if a check failed, and 69 if this machine has no GPU.
#
#   jobs/gpu_check.sh                                  checks build/; builds first if build/ has no programs or no tests
#   jobs/gpu_check.sh --bundle carillon-bundle.tar.xz  checks a bundle (make_bundle.sh)
#   jobs/gpu_check.sh --only second --seconds 600      the most important checks, within 600 seconds
#   jobs/gpu_check.sh --only tests,parity              runs the named steps, in the given order
#
# A bundle contains a copy of this script. Without --bundle, the copy checks its own bundle. The steps are:
#
#     tests      all tests with the label gpu; a skipped test counts as failed
#     parity     compares GPU and CPU, and GPU runs with each other (check_gpu_parity.py); then runs acceptance
#                checks on the GPU, such as the comparison with float64 numpy
#     sanitizer  memcheck, racecheck and initcheck of compute-sanitizer on short runs
#     bench      speed against PyTorch (gpu_vs_pytorch.py); bench-mnist, bench-cifar10: one data set only
#     profile    ncu: time and bytes of each kernel in a step without CUDA graph
#     second     tests one by one, speed against PyTorch, time and bytes per kernel, equal bits, and bf16 on the CPU
#                (tests/gpu/gpu_visit.py), each with its share of --seconds; runs only if named in --only. The variable
#                PHASES has more options for gpu_visit.py, such as PHASES='--phases tests,speed --networks vit'
#     accuracy   accuracy in fp32, tf32 and bf16 (check_gpu_accuracy.py); runs only if named in --only; requires
#                --mnist and --cifar10
#
#   --build DIR     build directory (default: build)
#   --mnist DIR     folder of the IDX files; without it parity and bench use random images
#   --cifar10 PATH  folder or archive of the binary version; without it parity and bench use random images
#   --out DIR       directory of logs and tables (default: $OUT, else gpu-check)
#   --seconds N     time limit for all steps (default: 3600); steps that do not finish in time count as failed
#
# PYTHON names the Python interpreter (default: python3). The interpreter requires numpy; bench and CIFAR-10's parity
# also require PyTorch.
set -euo pipefail
die() { echo "gpu_check: $2" >&2; exit "$1"; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
only=tests,parity,sanitizer,bench,profile
bundle='' build=$here/build mnist='' cifar10='' out=${OUT:-gpu-check} limit=3600
rest=()  # all arguments, without --bundle
while (($# > 0)); do
  (($# > 1)) || die 64 "$1: unknown option, or its value is missing"
  if [[ $1 != --bundle ]]; then rest+=("$1" "$2"); fi
  case $1 in
    --only) only=$2 ;;
    --bundle) bundle=$2 ;;
    --build) build=$(realpath -m "$2") ;;
    --mnist) mnist=$(realpath "$2") ;;
    --cifar10) cifar10=$(realpath "$2") ;;
    --out) out=$2 ;;
    --seconds) limit=$2 ;;
    *) die 64 "unknown option '$1'" ;;
  esac
  shift 2
done
for step in ${only//,/ }; do
  [[ $step =~ ^(tests|parity|sanitizer|bench|bench-mnist|bench-cifar10|profile|second|accuracy)$ ]] ||
    die 64 "--only: unknown step '$step'"
done
PATH=$PATH:/usr/local/nvidia/bin:/usr/local/cuda/bin
nvidia-smi --list-gpus 2>/dev/null | grep -q '^GPU ' || die 69 "no GPU on this machine (nvidia-smi lists none)"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [[ -n $bundle ]]; then
  if command -v xz >/dev/null; then
    tar -C "$scratch" -xf "$bundle"
  else
    "${PYTHON:-python3}" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
      "$bundle" "$scratch"
  fi
  code=0
  "$scratch/carillon-bundle/jobs/gpu_check.sh" "${rest[@]}" --seconds $((limit - SECONDS)) || code=$?
  exit "$code"
fi

python=${PYTHON:-python3}
mkdir -p "$out"
out=$(cd "$out" && pwd)
if [[ -x $here/run && -d $here/libexec ]]; then
  bin=$here/bin elf=$here/libexec in_place=("$here/run")
  PATH=$bin:$PATH
else
  [[ -x $build/bin/mnist_train && -x $build/bin/gpu_test ]] || {
    cmake -S "$here" -B "$build" -G Ninja -DCARILLON_CUDA=ON -DCARILLON_TESTS=ON
    cmake --build "$build"
  } >"$out/build.log" 2>&1 || die 70 "the build failed; see $out/build.log"
  bin=$build/bin elf=$build/bin in_place=()
  # shellcheck source=jobs/mpi_env.sh
  source "$here/jobs/mpi_env.sh"
fi

# Adds the folders of CUDA libraries that were installed as Python packages to the linker's search path.
use_packages() {
  local library folder
  for library in "$@"; do
    folder=$("$python" -c "import nvidia; print('\n'.join(nvidia.__path__))" 2>/dev/null |
      xargs -r -I{} find {} -name "$library" -printf '%h\n' | head -n 1) || true
    if [[ -n $folder ]]; then export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
  done
}
# Prints ldd's lines about the libraries of the training program. Prints nothing if ldd fails.
libraries() { ldd "$elf/mnist_train" 2>/dev/null || true; }
missing() { libraries | awk '/not found/ {print $1}'; }
for _ in 1 2; do  # a library from a package may need another library that the linker does not find
  mapfile -t names < <(missing)
  use_packages "${names[@]}"
done
[[ -z $(missing) ]] || die 66 "shared libraries not found on this machine: $(missing | paste -sd' ')"
# A Python package may have a newer cuDNN than the linker finds. Use the package if the program rejects the linker's
# cuDNN as too old.
probe=(timeout 60 "${in_place[@]}" "$elf/mnist_train" --data synthetic --device cuda --max-steps 0
  --train-dir "$scratch/start")
if [[ $("${probe[@]}" 2>&1 || true) == *'is loaded, but this program was built with'* ]]; then
  use_packages libcudnn.so.9 libcublasLt.so.13 libcublasLt.so.12
fi

# Prints a line, and appends it to the summary at once.
say() { printf '%s\n' "$1" | tee -a "$out/summary.txt"; }

# run NAME LOG COMMAND...: runs the command, and adds a line to the summary. This line ends with the last line of the
# command's output, or with the reason why the command failed.
failed=0
run() {
  local name=$1 log=$2 started=$EPOCHREALTIME code=0 verdict=PASS detail
  shift 2
  printf '\n## %s: %s\n' "$name" "$*" >>"$log"
  echo "gpu_check: $name" >&2
  timeout --kill-after=20 $((limit > SECONDS ? limit - SECONDS : 1)) "$@" >"$scratch/output" 2>&1 || code=$?
  cat "$scratch/output" >>"$log"
  detail=$(grep -v '^[[:space:]]*$' "$scratch/output" | tail -n 1 | cut -c1-90) || true
  if ((code != 0)); then
    detail="exit code $code: $detail"
    if ((SECONDS >= limit)); then detail="stopped after --seconds $limit"; fi
  elif grep -qE '\[  SKIPPED \]|\[  PASSED  \] 0 tests' "$scratch/output"; then
    code=1 detail="some tests were skipped"
  fi
  if ((code != 0)); then verdict=FAIL failed=1; fi
  say "$(printf '%s  %-44s %7.1f s  %s' "$verdict" "$name" \
    "$(awk "BEGIN {print $EPOCHREALTIME - $started}")" "$detail")"
  while IFS= read -r line; do say "      $line"; done < \
    <(grep -E '^FAIL|^## .*batch|Best of ours|^captured step' "$scratch/output" | cut -c1-160)
}

sets() {
  [[ -n $mnist ]] || { mnist=$scratch/mnist; "$python" "$here/tests/benchmarks/gpu_random_sets.py" mnist "$mnist"; }
  [[ -n $cifar10 ]] || {
    cifar10=$scratch/cifar10
    "$python" "$here/tests/benchmarks/gpu_random_sets.py" cifar10 "$cifar10"
  }
}

# Runs each test twice: without and with the early launch of kernels (src/device/cuda_device.h).
step_tests() {
  local log=$out/tests.log test ranks early found=0
  for test in "$elf"/*gpu*test; do
    [[ -x $test ]] || continue
    found=1
    for early in 0 1; do
      if [[ $test == *mpi_test ]]; then
        for ranks in 1 2 4; do
          run "${test##*/}, ranks: $ranks, early launch: $early" "$log" env CARILLON_EARLY_LAUNCH=$early "${in_place[@]}" \
            mpirun -np "$ranks" --oversubscribe --bind-to none "$test"
        done
      else
        run "${test##*/}, early launch: $early" "$log" env CARILLON_EARLY_LAUNCH=$early "${in_place[@]}" "$test"
      fi
    done
  done
  if ((!found)); then run "tests labelled gpu" "$log" false; fi
}

acceptance() {
  local name=$1 log=$2
  shift 2
  run "$name" "$log" "$python" "$here/tests/acceptance/$name.py" --bin "$bin" --data "$mnist" --cifar10 "$cifar10" "$@"
}

step_parity() {
  sets
  acceptance check_gpu_parity "$out/parity.log"
  local check
  for check in parity gpu_lines ranks resume cifar_parity cifar_augment stalls; do
    acceptance "check_$check" "$out/parity.log" --device cuda --quick
  done
}

step_accuracy() {
  [[ -n $mnist && -n $cifar10 ]] || die 64 "step accuracy requires --mnist and --cifar10"
  acceptance check_gpu_accuracy "$out/accuracy.log"
}

# Converts both datasets to records, for the steps that run the training programs themselves.
records() {
  sets
  "$bin/tfrecord_convert" mnist --input "$mnist" --output "$scratch/mnist-records" >/dev/null
  "$bin/tfrecord_convert" cifar10 --input "$cifar10" --output "$scratch/cifar10-records" >/dev/null
}

# short MODEL OPTION...: sets `command` to the command of a short training.
short() {
  local set=mnist program=mnist_train
  if [[ $1 == cifar10 ]]; then set=cifar10 program=cifar10_train; fi
  command=("$elf/$program" --data "$scratch/$set-records/train-*" --train-dir "$scratch/short" --fresh --device cuda)
  if [[ $1 == lenet ]]; then command+=(--model lenet); fi
  shift
  command+=(--summary-every 0 --checkpoint-every 0 "$@")
}

step_sanitizer() {
  records
  local model tool graph command
  for model in mnist lenet cifar10; do
    for tool in memcheck racecheck initcheck; do
      for graph in true false; do
        if [[ $tool != memcheck && $graph == true ]]; then continue; fi
        # The batch size decides which variant of MNIST's first kernel runs. The default batch size selects the variant
        # to check.
        local batch=20
        if [[ $model == mnist ]]; then batch=100; fi
        short "$model" --batch-size "$batch" --max-steps 5 --log-every 2 --cuda-graph="$graph"
        run "$tool: $model, cuda-graph=$graph" "$out/sanitizer.log" "${in_place[@]}" compute-sanitizer --tool "$tool" \
          --error-exitcode 86 --print-limit 20 "${command[@]}"
      done
    done
  done
}

step_profile() {
  records
  local model command
  for model in mnist cifar10; do
    short "$model" --batch-size 128 --max-steps 20 --log-every 0 --cuda-graph=false
    run "profile: $model, ncu" "$out/profile.log" "${in_place[@]}" ncu --clock-control none --csv --log-file \
      "$scratch/$model.csv" --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum "${command[@]}"
    run "profile: $model, table" "$out/profile.log" "$python" "$here/tests/benchmarks/gpu_profile.py" \
      "$scratch/$model.csv" --steps 20
  done
}

# bench SET OPTION...: runs gpu_vs_pytorch.py on the dataset SET, with the options.
bench() {
  sets
  local set=$1 data=$mnist
  shift
  if [[ $set == cifar10 ]]; then data=$cifar10; fi
  run "bench: $set" "$out/bench.log" "$python" "$here/tests/benchmarks/gpu_vs_pytorch.py" "$set" --bin "$bin" \
    --data "$data" --until $(($(date +%s) + limit - SECONDS - 30)) --out "$out/bench_$set.md" "$@"
}
step_bench-mnist() { bench mnist; }
step_bench-cifar10() { bench cifar10; }
step_bench() { bench mnist; bench cifar10; }

step_second() {
  local words=(--bin "$bin" --elf "$elf" --out "$out" --seconds $((limit - SECONDS)))
  if [[ -n $mnist ]]; then words+=(--mnist "$mnist"); fi
  if [[ -d $cifar10 ]]; then words+=(--cifar10 "$cifar10"); fi
  # shellcheck disable=SC2086  # PHASES has several words
  timeout --kill-after=20 $((limit - SECONDS + 20)) "${in_place[@]}" "$python" "$here/tests/gpu/gpu_visit.py" \
    "${words[@]}" ${PHASES:-} || failed=1
}

: >"$out/summary.txt"
say "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader)"
if [[ -f $here/BUNDLE ]]; then say "$(paste -sd, "$here/BUNDLE")"; fi
libraries | awk '/cudart|cudnn|cublas|nccl|nvrtc/ {print $1, $3}' | while read -r name path; do
  say "$name $(readlink -f "$path")"
done
# cuDNN compiles attention with libnvrtc, which loads libnvrtc-builtins by its name.
nvrtc=$(libraries | awk '$1 ~ /^libnvrtc\.so/ {print $3}')
if [[ -n $nvrtc ]] && ! compgen -G "$(dirname "$(readlink -f "$nvrtc")")/libnvrtc-builtins.so*" >/dev/null; then
  say "libnvrtc-builtins is missing in the folder of $nvrtc: attention cannot be fused"
fi
for step in ${only//,/ }; do "step_$step"; done
exit "$failed"
