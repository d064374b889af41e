# Settings for Open MPI on this machine. The scripts here and in tests/ source this file.
#
#   cores          number of physical cores that this process may use
#   mpirun_on N    prints the mpirun command for N ranks, one word per line (mapfile -t launch < <(mpirun_on 2))

# Open MPI runs as root (for example in a container) only if both variables are set.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Open MPI counts one slot per core, not per hardware thread. An affinity mask can reduce the number of cores.
cores=$(lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l || true)
allowed=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
if ((cores == 0 || cores > allowed)); then cores=$allowed; fi

# Seconds that mpirun waits after TERM or INT before it signals the ranks, and again before it kills them. mpirun also
# waits twice that long after a rank has failed, so the value is small. Scripts that restart trainings set a larger one.
export OMPI_MCA_odls_base_sigkill_timeout=${OMPI_MCA_odls_base_sigkill_timeout:-4}

# Binds each rank to an equal share of the cores. If there are more ranks than cores, the ranks are not bound.
mpirun_on() {
  local ranks=$1
  printf '%s\n' mpirun -np "$ranks"
  if ((ranks > cores)); then
    printf '%s\n' --oversubscribe --bind-to none
  else
    printf '%s\n' --map-by "slot:PE=$((cores / ranks))" --bind-to core
  fi
}
