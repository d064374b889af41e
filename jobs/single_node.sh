#!/usr/bin/env bash
# Trains on all of this machine: one rank a GPU, or one a core where there is no GPU.
#
#   jobs/single_node.sh --data 'data/mnist/train-*.tfrecord' --train-dir runs/mnist
#   jobs/single_node.sh mnist_eval --data 'data/mnist/test-*.tfrecord' --checkpoint runs/mnist
#
# The first word may name a program; without one it is mnist_train. RANKS=N sets the number of ranks. The exit
# code is the program's; 75 means stopped by a signal after a checkpoint: the same command goes on from there. TERM, INT
# (Ctrl-C), HUP and USR1 to this script stop it so; a second TERM or INT ends it at once.
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
  echo "single_node: RANKS is '$ranks', not a number above 0" >&2
  exit 64
fi

mapfile -t launch < <(mpirun_on "$ranks")
echo "single_node: $gpu_count GPUs, $cores cores: ${launch[*]} $program" >&2
# In a session of its own: Ctrl-C goes to all processes of a terminal's job, and is to reach mpirun as USR1 only.
forward_signals setsid "${launch[@]}" "$program" "${options[@]}"
