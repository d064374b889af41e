#!/usr/bin/env bash
# Trains on this machine with one rank per GPU, or with one rank per core if there is no GPU.
#
#   jobs/single_node.sh --data 'data/mnist/train-*.tfrecord' --train-dir runs/mnist
#   jobs/single_node.sh mnist_eval --data 'data/mnist/test-*.tfrecord' --checkpoint runs/mnist
#
# The first word may name a program (default: mnist_train). RANKS=N sets the number of ranks. The exit code is the
# program's exit code. 75 means that a signal stopped the run after a checkpoint; the same command resumes from the
# checkpoint. TERM, INT (Ctrl-C), HUP and USR1 to this script stop the run in this way; a second TERM or INT ends the
# run at once.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/jobs/mpi_env.sh"
source "$root/jobs/forward_signals.sh"
source "$root/jobs/choose_program.sh"

choose_program single_node mnist_train "$@"

gpus() {
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c '[^[:space:]]' || true
  elif command -v nvidia-smi >/dev/null; then
    nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU ' || true
  else
    echo 0
  fi
}
gpu_count=$(gpus)
ranks=${RANKS:-$((gpu_count > 0 ? gpu_count : cores))}
if [[ ! $ranks =~ ^[1-9][0-9]*$ ]]; then
  echo "single_node: RANKS is '$ranks'; expected a whole number above 0" >&2
  exit 64
fi

mapfile -t launch < <(mpirun_on "$ranks")
echo "single_node: $gpu_count GPUs, $cores cores: ${launch[*]} $program" >&2
# setsid: Ctrl-C would otherwise reach mpirun as INT, in addition to the USR1 that forward_signals sends.
forward_signals setsid "${launch[@]}" "$program" "${options[@]}"
