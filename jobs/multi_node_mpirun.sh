#!/usr/bin/env bash
# Trains on several machines without a batch system, with mpirun and ssh.
#
#   jobs/multi_node_mpirun.sh HOSTFILE --data 'data/mnist/train-*.tfrecord' --train-dir runs/mnist
#   RANKS=4 CORES_PER_RANK=8 jobs/multi_node_mpirun.sh HOSTFILE image_train ...
#
# HOSTFILE has one line per machine. `slots` is the number of ranks on the machine: its number of GPUs, or a few ranks
# for its cores:
#
#   node1 slots=4
#   node2 slots=4
#
# All machines must accept ssh without a password and have the same Open MPI. Program, data and train directory must
# have the same paths on all machines, for example on a shared file system (--stage copies data to local disks). The
# first word after HOSTFILE may name a program (default: mnist_train). Settings:
#
#   RANKS=N              number of ranks, at most the number of slots (default: all slots)
#   CORES_PER_RANK=N     number of cores that each rank is bound to (default: ranks are not bound)
#   INTERFACES=a,b       networks for MPI messages, as interfaces or as 10.1.0.0/16 (default: all networks)
#
# All ranks get the environment variables CARILLON_*. The exit code is the program's exit code. 75 means that a signal
# stopped the run after a checkpoint; the same command resumes from the checkpoint. TERM, INT (Ctrl-C), HUP and USR1 to
# this script stop the run in this way; a second TERM or INT ends the run at once.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/jobs/mpi_env.sh"
source "$root/jobs/forward_signals.sh"
source "$root/jobs/choose_program.sh"

if (($# == 0)) || [[ $1 == -* ]]; then
  echo "multi_node_mpirun: no host file; usage: jobs/multi_node_mpirun.sh HOSTFILE [PROGRAM] [OPTION...]" >&2
  exit 64
fi
hosts=$1
shift
if [[ ! -r $hosts ]]; then
  echo "multi_node_mpirun: $hosts: no such host file" >&2
  exit 66
fi
choose_program multi_node_mpirun mnist_train "$@"

slots=$(sed 's/#.*//' "$hosts" | awk 'NF { n = 1; for (i = 2; i <= NF; ++i) if (sub(/^slots=/, "", $i)) n = $i; sum += n } END { print sum + 0 }')
ranks=${RANKS:-$slots}
for setting in "RANKS=$ranks" ${CORES_PER_RANK:+"CORES_PER_RANK=$CORES_PER_RANK"}; do
  if [[ ! ${setting#*=} =~ ^[1-9][0-9]*$ ]]; then
    echo "multi_node_mpirun: ${setting%%=*} is '${setting#*=}'; expected a whole number above 0 (slots in $hosts: $slots)" >&2
    exit 64
  fi
done
if ((ranks > slots)); then
  echo "multi_node_mpirun: $ranks ranks, but $hosts has $slots slots" >&2
  exit 64
fi

launch=(mpirun -np "$ranks" --hostfile "$hosts")
if [[ -n ${CORES_PER_RANK-} ]]; then
  launch+=(--map-by "slot:PE=$CORES_PER_RANK" --bind-to core)
else
  launch+=(--bind-to none)
fi
if [[ -n ${INTERFACES-} ]]; then
  launch+=(--mca btl_tcp_if_include "$INTERFACES")
fi
while IFS= read -r name; do
  launch+=(-x "$name")
done < <(compgen -e CARILLON_ | grep -vx CARILLON_ERROR_FILE || true)
launch+=(-x CARILLON_ERROR_FILE)  # forward_signals sets it

echo "multi_node_mpirun: $ranks ranks on $slots slots: ${launch[*]} $program" >&2
# setsid: Ctrl-C would otherwise reach mpirun as INT, in addition to the USR1 that forward_signals sends.
forward_signals setsid "${launch[@]}" "$program" "${options[@]}"
