#!/usr/bin/env bash
# What the .sbatch files run: a training program on all tasks of a Slurm job, put back into the queue when it was
# stopped, after a checkpoint or before there was anything to save.
#
#   jobs/slurm_train.sh PROGRAM [OPTION...]
#   jobs/slurm_train.sh PROGRAM OTHER_PROGRAM [OPTION...]      runs the other instead
#
# Ends with the program's exit code. TERM and USR1 to the batch shell itself (scancel --batch) stop the program too.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/jobs/forward_signals.sh"
source "$root/jobs/choose_program.sh"

choose_program slurm_train "$@"
# Open MPI refuses root without both.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Slurm signals such a job at once: it would save, and be put back, again and again.
lead=$(scontrol write batch_script "$SLURM_JOB_ID" - 2>/dev/null | sed -n 's/^#SBATCH --signal=.*@\([0-9]*\)$/\1/p' | head -n 1 || true)
limit=$(squeue --noheader --job "$SLURM_JOB_ID" --format=%l 2>/dev/null | head -n 1 || true)
if [[ -n $lead && $limit =~ ^(([0-9]+)-)?(([0-9]+):)?([0-9]+):([0-9]+)$ ]]; then
  seconds=$((((10#${BASH_REMATCH[2]:-0} * 24 + 10#${BASH_REMATCH[4]:-0}) * 60 + 10#${BASH_REMATCH[5]}) * 60 + 10#${BASH_REMATCH[6]}))
  if ((seconds <= lead)); then
    echo "slurm_train: warning: the job's limit of $seconds s leaves no time before the signal, which the script asks for" \
      "$lead s before the limit: give a longer --time, or, if sbatch was given none, a --signal nearer to it" >&2
  fi
fi

code=0
forward_signals srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "$program" "${options[@]}" || code=$?

# A training's processes take USR1 but for their first moments: then nothing was done.
if ((code == 128 + $(kill -l USR1) && SECONDS < 60)) && [[ $program == *_train ]]; then
  code=75
fi
# 75 after scancel must not bring the job back: then it is no longer running.
if ((code == 75)) && [[ $(squeue --noheader --job "$SLURM_JOB_ID" --format=%T) == RUNNING ]]; then
  job=$SLURM_JOB_ID
  if [[ -n ${SLURM_ARRAY_JOB_ID-} ]]; then job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}; fi
  echo "slurm_train: stopped by a signal; back into the queue as job $job"
  scontrol requeue "$job"
fi
exit "$code"
