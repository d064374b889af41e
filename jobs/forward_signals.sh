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
forward_signals() {
  local stops=0 code
  CARILLON_ERROR_FILE=$(mktemp) || CARILLON_ERROR_FILE=/dev/null
  export CARILLON_ERROR_FILE
  "$@" </dev/null &
  local command=$!
  trap 'forward_stop USR1' USR1 HUP
  trap 'forward_stop TERM' TERM INT
  local caught
  while :; do
    caught=
    code=0
    wait "$command" || code=$?
    [[ -n $caught ]] || break  # if `caught` is set, a signal ended `wait`, and the command still runs
  done
  trap - USR1 HUP TERM INT
  if [[ -f $CARILLON_ERROR_FILE ]]; then
    tail -n 1 "$CARILLON_ERROR_FILE" >&2 || true
    rm -f "$CARILLON_ERROR_FILE"
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
  if ((stops++ == 0)); then signal=USR1; fi
  kill -s "$signal" "$command" 2>/dev/null || true
}
