# Runs a command, forwards stop signals so that the command can save a checkpoint, and prints the program's error last.
# Other job scripts source this file.
#
#   forward_signals COMMAND...   returns the exit code of the command; the command's standard input is empty
#
# After TERM or INT mpirun kills its ranks within seconds, even if they have not saved yet, and returns 1. After USR1
# mpirun forwards the signal, waits, and returns the program's exit code 75. Therefore the first TERM, INT, HUP or USR1
# to the script is sent to the command as USR1. A later TERM or INT is sent as TERM.
#
# mpirun prints about ten lines after a failure. Programs also write their error line into the file
# CARILLON_ERROR_FILE, and forward_signals prints this line again after the end of mpirun.
#
# Variables of the calling script:
#
#   own_ranks=1     the command is `setsid mpirun`, and all its ranks are on this machine: if they have ended, mpirun
#                   ends at once
#   keep_stderr=1   search stderr for the error line: ranks on other machines cannot write to CARILLON_ERROR_FILE
#   after_signals   the traps for stop signals after the command; default: none
#
# Results: stop_count, the number of stop signals so far; error_line, the program's last error line.
stop_count=0
error_line=

forward_signals() {
  local command='' watcher='' log='' copier='' copy='' segments='' code caught stopped
  CARILLON_ERROR_FILE=$(mktemp) || CARILLON_ERROR_FILE=/dev/null
  export CARILLON_ERROR_FILE
  stopped=$CARILLON_ERROR_FILE.stopped
  # Open MPI's shared memory files remain if mpirun is killed. In a directory they can be removed together.
  if [[ -n ${own_ranks-} && -z ${OMPI_MCA_btl_vader_backing_directory-} ]] &&
    segments=$(mktemp -d /dev/shm/carillon-XXXXXX 2>/dev/null); then
    export OMPI_MCA_btl_vader_backing_directory=$segments
  fi
  trap 'forward_stop USR1' USR1 HUP
  trap 'forward_stop TERM' TERM INT
  if [[ -n ${keep_stderr-} ]] && log=$(mktemp); then
    exec {copy}> >(trap '' USR1 HUP TERM INT; exec tee "$log" >&2)
    copier=$!
    "$@" </dev/null 2>&"$copy" {copy}>&- &
    command=$!
    exec {copy}>&-
  else
    "$@" </dev/null &
    command=$!
  fi
  if [[ " $* " == *" mpirun "* ]]; then
    watch_mpirun "$command" "$stopped" &
    watcher=$!
  fi
  if ((stop_count > 0)); then signal_command USR1; fi  # it arrived before the command ran
  while :; do
    caught=
    code=0
    wait "$command" 2>/dev/null || code=$?
    [[ -n $caught ]] || break  # if `caught` is set, a signal ended `wait`, and the command still runs
  done
  # shellcheck disable=SC2064  # expands after_signals now
  trap "${after_signals:--}" USR1 HUP TERM INT
  local lines=1
  if [[ -n $watcher ]]; then
    # The watcher returns 0 if it had to kill mpirun, which then has not shown the lines.
    local watched=129
    while ((watched > 128)); do  # a signal interrupts `wait`
      watched=0
      wait "$watcher" || watched=$?
    done
    if ((watched == 0)); then lines=+1; fi
    if ((code > 128)); then
      wait_for_session "$command"
      rm -rf "${TMPDIR:-/tmp}"/ompi.*."$EUID/pid.$command"  # what a killed mpirun leaves
    fi
  fi
  if [[ -n $segments ]]; then
    rm -rf "$segments"
    unset OMPI_MCA_btl_vader_backing_directory
  fi
  if [[ -n $copier ]]; then
    local i
    for ((i = 0; i < 50; ++i)); do
      kill -0 "$copier" 2>/dev/null || break
      sleep 0.1
    done
  fi
  error_line=
  if [[ -f $CARILLON_ERROR_FILE ]]; then
    error_line=$(tail -n 1 "$CARILLON_ERROR_FILE" || true)
    tail -n "$lines" "$CARILLON_ERROR_FILE" >&2 || true
    rm -f "$CARILLON_ERROR_FILE" "$stopped"
  fi
  if [[ -n $log ]]; then
    if [[ -z $error_line ]]; then error_line=$(grep -aE '^[^ ]+: rank [0-9]+ on [^ ]+: ' "$log" | tail -n 1 || true); fi
    rm -f "$log"
  fi
  if ((code == 75)) && [[ " $* " == *" mpirun "* ]]; then
    echo "stopped after a checkpoint: repeat the command to resume" >&2
  fi
  return "$code"
}

# Signal handler of forward_signals; uses its local variables.
forward_stop() {
  local signal=$1
  caught=1
  if ((stop_count++ == 0)); then signal=USR1; fi
  if [[ -n $command ]]; then signal_command "$signal"; fi
}

signal_command() {
  kill -s "$1" "$command" 2>/dev/null || true
  if [[ $1 == USR1 ]]; then
    touch "$stopped" 2>/dev/null || true
  elif [[ -n $watcher ]]; then
    shorten_pauses "$command" 16  # mpirun's first pause: then it sends TERM to the ranks
  fi
}

# Waits for the end of the mpirun with the process number $1. Returns 0 if it had to kill mpirun.
#
# mpirun drops a USR1 that arrives before its ranks exist. So the watcher repeats USR1 every second once the file $2
# exists. If a rank fails, Open MPI 4.1's mpirun pauses twice for odls_base_sigkill_timeout seconds, so that the other
# ranks can save, even if none of them is left. It can also hang at its own end. The watcher shortens the pauses and
# kills an mpirun that hangs.
watch_mpirun() {
  local mpirun=$1 stopped=$2 seen='' idle=0 count=0 quiet
  trap '' USR1 HUP TERM INT
  exec {quiet}<> <(:)  # a pipe without data: `read` waits without starting a process
  while is_running "$mpirun"; do
    read -r -t 0.2 -u "$quiet" _ || true
    if [[ -e $stopped ]] && ((++count % 5 == 0)); then kill -s USR1 "$mpirun" 2>/dev/null || true; fi
    if [[ -z ${own_ranks-} ]]; then continue; fi
    if has_running_child "$mpirun"; then
      seen=1
      idle=0
    elif [[ -n $seen ]] && ((++idle > 1)); then
      if ((idle > 100)); then
        kill -s KILL "$mpirun" 2>/dev/null || true
        return 0
      fi
      shorten_pauses "$mpirun" 40
    fi
  done
  return 1
}

# Shortens a pause of mpirun (docs/developer-guide/reliability.md).
shorten_pauses() {
  local mpirun=$1 signals=$2 i
  for ((i = 0; i < signals; ++i)); do
    kill -s CHLD "$mpirun" 2>/dev/null || return 0
    sleep 0.01
  done
}

# Whether the process $1 runs: it exists and is not a zombie.
is_running() {
  local line
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  [[ ${line##*) } != [ZX]* ]]
}

has_running_child() {
  local list child children
  for list in "/proc/$1/task/"*/children; do
    children=()
    { read -r -a children <"$list"; } 2>/dev/null || true
    for child in "${children[@]}"; do
      if is_running "$child"; then return 0; fi
    done
  done
  return 1
}

# Waits up to a minute until no process of the session $1 runs: if mpirun was killed, its ranks still save.
wait_for_session() {
  local session=$1 file line fields tries is_over
  for ((tries = 0; tries < 300; ++tries)); do
    is_over=1
    for file in /proc/[0-9]*/stat; do
      { read -r line <"$file"; } 2>/dev/null || continue
      read -r -a fields <<<"${line##*) }"
      if [[ ${fields[3]} == "$session" && ${fields[0]} != [ZX] ]]; then
        is_over=
        break
      fi
    done
    if [[ -n $is_over ]]; then return 0; fi
    sleep 0.2
  done
}
