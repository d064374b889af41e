#!/usr/bin/env bash
# Trains on this machine with one rank per GPU, or with one rank per core if there is no GPU.
#
#   jobs/single_node.sh --data 'data/mnist/train-*.tfrecord' --train-dir runs/mnist
#   jobs/single_node.sh mnist_eval --data 'data/mnist/test-*.tfrecord' --checkpoint runs/mnist
#
# The first word may name a program (default: mnist_train). RANKS=N sets the number of ranks. The exit code is the
# program's exit code. 75 means that a signal stopped the run after a checkpoint; to resume from the checkpoint, repeat
# the command. TERM, INT (Ctrl-C), HUP and USR1 to this script stop the run in this way; a second TERM or INT ends the
# run at once.
#
# If a rank of a training is killed, crashes or hangs, the script starts the training again from its last checkpoint.
# The script gives up after RESTARTS restarts (default: 3; 0: no restart) without a newer checkpoint.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# If a rank ends, mpirun gives the other ranks twice this time, in seconds, to save. mpirun ends earlier if all ranks
# have ended.
export OMPI_MCA_odls_base_sigkill_timeout=${OMPI_MCA_odls_base_sigkill_timeout:-15}
source "$root/jobs/mpi_env.sh"
source "$root/jobs/choose_program.sh"

choose_program single_node mnist_train "$@"

gpus() {
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    # In CUDA_VISIBLE_DEVICES, a negative number hides all GPUs after it.
    tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | sed '/^[[:space:]]*-/,$d' | grep -c '[^[:space:]]' || true
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

# Inside a job of a batch system, mpirun would use the hosts of the job and count the tasks of the job as slots.
export OMPI_MCA_ras=^slurm,tm,lsf,gridengine OMPI_MCA_plm=^slurm,tm,lsf

mapfile -t mpirun < <(mpirun_on "$ranks")
echo "single_node: $gpu_count GPUs, $cores cores: ${mpirun[*]} $program" >&2
launch single_node -- "${mpirun[@]}" "$program" "${options[@]}"
