# Settings for Open MPI on this machine. The scripts here and in tests/ source this file.
#
#   cores          number of physical cores that this process may use
#   mpirun_on N    prints the mpirun command for N ranks, one word per line (mapfile -t launch < <(mpirun_on 2))

# Open MPI runs as root (for example in a container) only if both variables are set.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Open MPI counts one slot per core, not per hardware thread. An affinity mask can also exclude cores. cores_of LIST
# prints how many cores have a hardware thread in LIST, for example 0-3,8. If LIST is empty, it counts all cores. If the
# number is unknown, it prints 0.
cores_of() {
  lscpu --parse=CPU,CORE,SOCKET 2>/dev/null | awk -F, -v allowed="$1" '
    BEGIN {
      count = split(allowed, ranges, ",")
      for (i = 1; i <= count; ++i) {
        ends = split(ranges[i], range, "-")
        for (thread = range[1] + 0; thread <= range[ends] + 0; ++thread) is_allowed[thread]
      }
    }
    /^[0-9]/ && (allowed == "" || ($1 + 0 in is_allowed)) && !(($2, $3) in seen) { seen[$2, $3]; ++cores }
    END { print cores + 0 }' || true
}
cores=$(cores_of "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>/dev/null || true)")
if ((cores == 0)); then cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc); fi

# Seconds that mpirun waits after TERM or INT before it sends the ranks a signal, and again before it kills them. After
# a rank has failed, mpirun also waits twice this time before it ends. The default is small, so that mpirun ends soon.
# Scripts that restart trainings set a larger value, so that the other ranks can save.
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
