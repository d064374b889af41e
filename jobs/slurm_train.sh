#!/usr/bin/env bash
# Runs a training program on all tasks of a Slurm job. The .sbatch files call this script. If a signal stops the
# program, the script requeues the job.
#
#   jobs/slurm_train.sh PROGRAM [OPTION...]
#   jobs/slurm_train.sh PROGRAM OTHER_PROGRAM [OPTION...]      runs OTHER_PROGRAM instead
#
# The exit code is the program's exit code. TERM and USR1 to the batch shell (scancel --batch) also stop the program.
#
# If a rank of a training is killed, crashes, hangs or does not respond, the script starts the training again in the
# same job. The script gives up after RESTARTS restarts (default: 3; 0: no restart) without a newer checkpoint. If a
# node fails, Slurm requeues the job.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/jobs/choose_program.sh"

choose_program slurm_train "$@"
# Open MPI runs as root only if both variables are set.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# The lead is the time before the limit at which Slurm sends the signal (--signal). If the time limit is shorter than
# the lead, Slurm sends the signal at the start of the job. The job would then save and be requeued again and again.
lead=$(scontrol write batch_script "$SLURM_JOB_ID" - 2>/dev/null | sed -n 's/^#SBATCH --signal=.*@\([0-9]*\)$/\1/p' | head -n 1 || true)
limit=$(squeue --noheader --job "$SLURM_JOB_ID" --format=%l 2>/dev/null | head -n 1 || true)
if [[ -n $lead && $limit =~ ^(([0-9]+)-)?(([0-9]+):)?([0-9]+):([0-9]+)$ ]]; then
  seconds=$((((10#${BASH_REMATCH[2]:-0} * 24 + 10#${BASH_REMATCH[4]:-0}) * 60 + 10#${BASH_REMATCH[5]}) * 60 + 10#${BASH_REMATCH[6]}))
  if ((seconds <= lead)); then
    echo "slurm_train: warning: the job's limit of $seconds s leaves no time before the signal, which the script requests" \
      "$lead s before the limit: set a longer --time, or set --signal closer to the limit" >&2
  fi
fi

job=$SLURM_JOB_ID
# One task of a job array has the same ID as the array. For this ID, squeue lists all tasks of the array.
if [[ -n ${SLURM_ARRAY_JOB_ID-} ]]; then job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}; fi
# A cancelled job must not restart the training and must not be requeued. Such a job is not in the state RUNNING.
is_running="[[ \$(squeue --noheader --job $job --format=%T) == RUNNING ]]"
requeue="echo 'slurm_train: stopped after a checkpoint; requeueing job $job'; scontrol requeue $job"
launch slurm_train --on-other-hosts --restart-if "$is_running" --after-stop "$is_running && { $requeue; }" -- \
  srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "$program" "${options[@]}"
