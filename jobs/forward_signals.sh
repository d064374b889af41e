# Sourced by the scripts here: runs a command that is told of stop signals in the way in which it can save.
#
#   forward_signals COMMAND...   returns its exit code; it reads nothing
#
# mpirun kills its ranks a few seconds after a TERM or INT, saved or not, and returns 1; a USR1 it hands on, waits, and
# returns the program's 75. So the first TERM, INT, HUP or USR1 to the script goes to the command as USR1; a TERM or INT
# after that goes as TERM.
forward_signals() {
  local stops=0 code
  "$@" </dev/null &
  local command=$!
  trap 'forward_stop USR1' USR1 HUP
  trap 'forward_stop TERM' TERM INT
  local caught
  while :; do
    caught=
    code=0
    wait "$command" || code=$?
    [[ -n $caught ]] || break  # else it was the signal that ended the waiting
  done
  trap - USR1 HUP TERM INT
  return "$code"
}

# Of forward_signals, whose variables it uses.
forward_stop() {
  local signal=$1
  caught=1
  if ((stops++ == 0)); then signal=USR1; fi
  kill -s "$signal" "$command" 2>/dev/null || true
}
