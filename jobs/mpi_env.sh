# Sourced by the scripts here and in tests/: how Open MPI is started on this machine.
#
#   cores          physical cores that this process may use
#   mpirun_on N    prints the mpirun command for N ranks, one word a line (mapfile -t launch < <(mpirun_on 2))

# Open MPI refuses root (as in a container) without both.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Open MPI counts a slot a core, not a hardware thread; an affinity mask can leave fewer.
cores=$(lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l || true)
allowed=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
if ((cores == 0 || cores > allowed)); then cores=$allowed; fi

# After TERM or INT to mpirun itself: seconds until it tells the ranks, and then until it kills them. It takes them also
# when one rank has crashed, so not more.
export OMPI_MCA_odls_base_sigkill_timeout=${OMPI_MCA_odls_base_sigkill_timeout:-4}

# Each rank gets an equal share of the cores to itself; with more ranks than cores they take turns.
mpirun_on() {
  local ranks=$1
  printf '%s\n' mpirun -np "$ranks"
  if ((ranks > cores)); then
    printf '%s\n' --oversubscribe --bind-to none
  else
    printf '%s\n' --map-by "slot:PE=$((cores / ranks))" --bind-to core
  fi
}
