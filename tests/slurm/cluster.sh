#!/usr/bin/env bash
# Starts a Slurm cluster with two nodes on this machine, to test batch scripts under a real Slurm. Requires root.
#
#   jobs/install_deps.sh --slurm
#   eval "$(tests/slurm/cluster.sh start)"      # sets SLURM_CONF
#   sbatch --wait jobs/mnist.sbatch --data ...; echo $?
#   tests/slurm/cluster.sh stop
#
# The nodes are n1 and n2. Each node has 4 CPUs, 2 stand-ins for GPUs, and its own network, hostname and /dev/shm. Both
# nodes see the same files. The state of the cluster is in /tmp/carillon-slurm. Jobs of the partition `high` preempt
# jobs of the default partition `debug`.
set -euo pipefail

state=/tmp/carillon-slurm
subnet=10.77.0
export SLURM_CONF=$state/etc/slurm.conf

die() {
  echo "slurm_cluster: $*" >&2
  exit 1
}

write_configuration() {
  printf '127.0.0.1 localhost\n%s.1 n1\n%s.2 n2\n%s.254 %s\n' $subnet $subnet $subnet "$(hostname -s)" >$state/etc/hosts
  echo 'Name=gpu File=/dev/tty[1-2]' >$state/etc/gres.conf # as a GPU, any device file suffices
  cat >$SLURM_CONF <<CONF
ClusterName=trial
SlurmctldHost=$(hostname -s)($subnet.254)
SlurmctldPort=36817
SlurmdPort=36818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job starts after cred_expire + 1 seconds; the default is 121.
AuthInfo=socket=$state/munge-run/sock,cred_expire=5
StateSaveLocation=$state/state
# For PMIx, the paths must contain %n.
SlurmdSpoolDir=$state/spool/%n
TmpFS=$state/tmpfs/%n
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd-%n.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,sched_min_interval=1
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MinJobAge=600
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
NodeName=n1 NodeAddr=$subnet.1 CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=4000 Gres=gpu:2
NodeName=n2 NodeAddr=$subnet.2 CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=4000 Gres=gpu:2
PartitionName=debug Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=15
PartitionName=high Nodes=n[1-2] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
}

start_munge() {
  head -c128 /dev/urandom >$state/munge/munge.key
  chown -R munge: $state/munge $state/munge-run
  chmod 700 $state/munge
  chmod 600 $state/munge/munge.key
  setpriv --reuid=munge --regid=munge --clear-groups munged --num-threads=10 --key-file=$state/munge/munge.key \
    --socket=$state/munge-run/sock --pid-file=$state/munge-run/munged.pid --log-file=$state/munge/munged.log \
    --seed-file=$state/munge/seed
}

make_network() {
  ip link add brst type bridge
  ip addr add $subnet.254/24 dev brst
  ip link set brst up
  for i in 1 2; do
    ip netns add stn$i
    ip link add vst$i type veth peer name eth0 netns stn$i
    ip link set vst$i master brst up
    ip -n stn$i addr add $subnet.$i/24 dev eth0
    ip -n stn$i link set eth0 up
    ip -n stn$i link set lo up
  done
}

start_nodes() {
  slurmctld -c -f $SLURM_CONF
  # Use nsenter instead of ip netns exec, which hides /sys/fs/cgroup. If slurmd does not see this folder, it ends.
  for i in 1 2; do
    nsenter --net=/run/netns/stn$i unshare --uts --mount --propagation private sh -c "
      hostname n$i; mount -t tmpfs -o mode=1777 shm /dev/shm; mount --bind $state/etc/hosts /etc/hosts
      exec slurmd -N n$i -f $SLURM_CONF"
  done
}

wait_until_idle() {
  for _ in $(seq 600); do
    if [[ $(sinfo -h -p debug -t idle -o %D 2>/dev/null) == 2 ]]; then return; fi
    sleep 0.1
  done
  die "the two nodes are not idle after 60 s: see $state/log"
}

start() {
  ((EUID == 0)) || die "needs root: it makes network namespaces"
  for program in slurmctld slurmd munged ip; do
    command -v $program >/dev/null || die "no $program: run jobs/install_deps.sh --slurm"
  done
  [[ ! -e $state ]] || die "$state exists: a cluster runs already, or run: ${BASH_SOURCE[0]} stop"
  trap 'stop >&2' EXIT # stops the parts that run if the start fails
  mkdir -p $state/{etc,state,log,munge,munge-run} $state/{spool,tmpfs}/n{1,2}
  chmod 755 $state
  chmod 1777 $state/tmpfs/n*
  {
    write_configuration
    start_munge
    make_network
    start_nodes
    wait_until_idle
  } >&2
  trap - EXIT
  echo "export SLURM_CONF=$SLURM_CONF"
}

stop() {
  if [[ ! -e $state ]]; then
    echo "slurm_cluster: nothing to stop" >&2
    return
  fi
  local jobs pid_file
  jobs=$(timeout 5 squeue -h -o %A 2>/dev/null || true)
  if [[ -n $jobs ]]; then
    # shellcheck disable=SC2086  # one word per job
    timeout 5 scancel $jobs || true
    sleep 1
  fi
  for pid_file in $state/slurmd-n1.pid $state/slurmd-n2.pid $state/slurmctld.pid $state/munge-run/munged.pid; do
    if [[ -s $pid_file ]]; then stop_daemon "$(<"$pid_file")"; fi
  done
  for i in 1 2; do ip netns delete stn$i 2>/dev/null || true; done
  ip link delete brst 2>/dev/null || true
  rm -rf $state
}

stop_daemon() {
  kill "$1" 2>/dev/null || return 0
  for _ in $(seq 50); do
    if ! kill -0 "$1" 2>/dev/null; then return; fi
    sleep 0.1
  done
  kill -9 "$1" 2>/dev/null || true
}

case ${1-} in
  start) start ;;
  stop) stop ;;
  *) echo "usage: ${BASH_SOURCE[0]} start|stop" >&2; exit 64 ;;
esac
