#!/usr/bin/env bash
# Trains on several machines without a batch system, with mpirun and ssh.
#
#   jobs/multi_node_mpirun.sh HOSTFILE --data 'data/mnist/train-*.tfrecord' --train-dir runs/mnist
#   RANKS=4 CORES_PER_RANK=8 jobs/multi_node_mpirun.sh HOSTFILE image_train ...
# HOSTFILE has one line per machine. `slots` is the number of ranks on the machine. Set `slots` to the number of GPUs.
# If the machine has no GPUs, set it to a small number of ranks:
#
#   node1 slots=4
#   node2 slots=4
#
# All machines must accept ssh without a password and have the same Open MPI. Program, data and train directory must
# have the same paths on all machines, for example on a shared file system (--stage copies data to local disks). The
# first word after HOSTFILE may name a program (default: mnist_train). Settings:
#
#   RANKS=N              number of ranks, at most the number of slots (default: all slots)
#   CORES_PER_RANK=N     binds each rank to N cores (default: ranks are not bound)
#   INTERFACES=a,b       networks for MPI messages: interfaces, or 10.1.0.0/16 (default: all networks)
#
# All ranks get the environment variables CARILLON_*. The exit code is the program's exit code. 75 means that a signal
# stopped the run after a checkpoint; to resume from the checkpoint, repeat the command. TERM, INT (Ctrl-C), HUP and
# USR1 to this script stop the run in this way; a second TERM or INT ends the run at once.
#
# If a rank of a training is killed, crashes, hangs or does not respond, the script starts the training again from its
# last checkpoint. The script gives up after RESTARTS restarts (default: 3; 0: no restart) without a newer checkpoint.
# After the loss of a rank, mpirun needs about 20 s to end. The restarted training uses only the hosts that answer.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# If a rank ends, mpirun gives the other ranks twice this time, in seconds, to save. Then the script can restart the
# training.
export OMPI_MCA_odls_base_sigkill_timeout=${OMPI_MCA_odls_base_sigkill_timeout:-10}
source "$root/jobs/mpi_env.sh"
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

# Prints "NAME SLOTS" for each host of the host file $1.
slots_of_hosts() {
  sed 's/#.*//' "$1" | awk 'NF { n = 1; for (i = 2; i <= NF; ++i) if (sub(/^slots=/, "", $i)) n = $i; print $1, n }'
}

total() { awk '{ sum += $2 } END { print sum + 0 }'; }

slots=$(slots_of_hosts "$hosts" | total)
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

# For each start of the training, `carillon launch` calls this script again. CARILLON_START is the number of the start,
# from 1.
if [[ -z ${CARILLON_START-} ]]; then
  launch multi_node_mpirun --on-other-hosts -- "$root/jobs/multi_node_mpirun.sh" "$hosts" "$program" "${options[@]}"
fi
start=$CARILLON_START
unset CARILLON_START

settings=()
if [[ -n ${CORES_PER_RANK-} ]]; then
  settings+=(--map-by "slot:PE=$CORES_PER_RANK" --bind-to core)
else
  settings+=(--bind-to none)
fi
if [[ -n ${INTERFACES-} ]]; then
  settings+=(--mca btl_tcp_if_include "$INTERFACES")
fi
while IFS= read -r name; do
  settings+=(-x "$name")
done < <(compgen -e CARILLON_ || true)

# Returns whether mpirun can start processes on the host $1.
answers() {
  local agent=()
  if [[ $1 == localhost || $1 == "$(hostname)" || $1 == "$(hostname -s)" ]]; then return 0; fi
  read -r -a agent <<<"${OMPI_MCA_plm_rsh_agent:-ssh}"
  if [[ ${agent[0]##*/} == ssh ]]; then agent+=(-o BatchMode=yes -o ConnectTimeout=5); fi
  timeout --kill-after=1 10 "${agent[@]}" "$1" true </dev/null >/dev/null 2>&1
}

# Prints the lines of slots_of_hosts for the hosts that answer.
answering_hosts() {
  local host slots
  while read -r host slots; do
    { if answers "$host"; then echo "$host $slots"; fi; } &
  done < <(slots_of_hosts "$hosts")
  wait
}

# Returns whether an option, the environment or a configuration file sets --global-batch.
has_global_batch() {
  local i config=${CARILLON_CONFIG-}
  for i in "${!options[@]}"; do
    case ${options[i]} in
      --global[-_]batch | --global[-_]batch=*) return 0 ;;
      --config) config=${options[i + 1]-} ;;
      --config=*) config=${options[i]#*=} ;;
    esac
  done
  [[ -n ${CARILLON_GLOBAL_BATCH-} ]] || grep -qsE '^[[:space:]]*global[-_]batch[[:space:]]*=' "$config"
}

# Sets `usable` to a host file of the hosts that answer, and `used` to the number of ranks on these hosts.
choose_hosts() {
  local answering lost available change=''
  answering=$(answering_hosts)
  lost=$(slots_of_hosts "$hosts" | grep -vxFf <(printf '%s\n' "$answering") | cut -d ' ' -f 1 | paste -s -d ' ' || true)
  if [[ -z $lost ]]; then return; fi
  if [[ -z $answering ]]; then
    echo "multi_node_mpirun: no host of $hosts answers: $lost" >&2
    exit 70
  fi
  usable=$(dirname "$CARILLON_ERROR_FILE")/hosts  # `carillon launch` removes this folder
  slots_of_hosts "$hosts" | grep -xFf <(printf '%s\n' "$answering") | sed 's/ / slots=/' >"$usable"
  available=$(total <<<"$answering")
  if ((used > available)); then used=$available; fi
  if ((used != ranks)); then
    change="; $used ranks instead of $ranks"
    if ! has_global_batch; then
      change+=", and the global batch changes in proportion (--global-batch N would keep it)"
    fi
  fi
  echo "multi_node_mpirun: no answer, left out: $lost$change" >&2
}

usable=$hosts
used=$ranks
if ((start > 1)); then choose_hosts; fi
mpirun=(mpirun -np "$used" --hostfile "$usable" "${settings[@]}" "$program" "${options[@]}")
if ((start == 1)); then echo "multi_node_mpirun: $ranks ranks on $slots slots: ${mpirun[*]:0:${#mpirun[@]}-${#options[@]}}" >&2; fi
exec "${mpirun[@]}"
