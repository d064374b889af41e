#!/usr/bin/env bash
# Trains on several machines without a batch system, by mpirun and ssh.
#
#   jobs/multi_node_mpirun.sh HOSTFILE --data 'data/mnist/train-*.tfrecord' --train-dir runs/mnist
#   RANKS=4 CORES_PER_RANK=8 jobs/multi_node_mpirun.sh HOSTFILE image_train ...
#
# HOSTFILE has a line for each machine, with as many slots as it is to have ranks: its GPUs, or a few for its cores:
#
#   node1 slots=4
#   node2 slots=4
#
# The machines reach each other by ssh without a password, have the same Open MPI, and see the program, the data and the
# train directory under the same names (a shared file system; --stage copies data to each one's own disk). The first
# word behind HOSTFILE may name a program; without one it is mnist_train. Settings:
#
#   RANKS=N              ranks, fewer than there are slots
#   CORES_PER_RANK=N     cores that each rank is bound to; without it ranks are not bound
#   INTERFACES=a,b       networks for messages, by interface or as 10.1.0.0/16; without it Open MPI takes all that it finds
#
# CARILLON_* of the environment goes to all ranks. The exit code is the program's; 75 means stopped by a signal after a
# checkpoint: the same command goes on from there. TERM, INT (Ctrl-C), HUP and USR1 to this script stop it so; a second
# TERM or INT ends it at once.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/jobs/mpi_env.sh"
source "$root/jobs/forward_signals.sh"
source "$root/jobs/choose_program.sh"

if (($# == 0)) || [[ $1 == -* ]]; then
  echo "multi_node_mpirun: name a host file first: jobs/multi_node_mpirun.sh HOSTFILE [PROGRAM] [OPTION...]" >&2
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
    echo "multi_node_mpirun: ${setting%%=*} is '${setting#*=}', not a number above 0 (slots in $hosts: $slots)" >&2
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
done < <(compgen -e CARILLON_ || true)

echo "multi_node_mpirun: $ranks ranks on $slots slots: ${launch[*]} $program" >&2
# In a session of its own: Ctrl-C goes to all processes of a terminal's job, and is to reach mpirun as USR1 only.
forward_signals setsid "${launch[@]}" "$program" "${options[@]}"
