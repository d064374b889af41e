# Starts a training again if one of its ranks was lost. Other job scripts source this file after forward_signals.sh.
#
#   check_restarts NAME                        sets `restarts` from RESTARTS (default: 3); exit code 64 if it is no number
#   with_restarts NAME FUNCTION OPTION...      returns the exit code of the training; NAME is the script's name
#
# FUNCTION passes its options to `program` and starts it with forward_signals. with_restarts calls it again if a rank was
# killed, crashed, hung or did not respond. It calls it at most `restarts` times in a row without progress. Progress is
# a newer checkpoint in the train directory. If the restarts are used up, the exit code is 70. Other errors, stop
# signals and programs with names that do not end in _train lead to no restart. After a stop signal, a lost rank gives
# the code 75, because its training is saved.
#
# The script may define `may_restart`, which returns 1 if a restart is impossible.
# shellcheck disable=SC2034,SC2154  # variables of forward_signals.sh and choose_program.sh
check_restarts() {
  restarts=${RESTARTS:-3}
  if [[ ! $restarts =~ ^[0-9]+$ ]]; then
    echo "$1: RESTARTS is '$restarts'; expected a whole number (0: no restarts)" >&2
    exit 64
  fi
  restarts=$((10#$restarts))
}

with_restarts() {
  local name=$1 start=$2 code=0 count=0 before newest directory earlier
  local after_signals='((++stop_count))'
  shift 2
  local words=("$@")
  directory=$(train_directory "$@")
  earlier=$(checkpoint_files "$directory")
  while :; do
    before=$(newest_step "$directory")
    code=0
    "$start" "${words[@]}" || code=$?
    if ! has_lost_rank "$code"; then break; fi
    if ((stop_count > 0)); then
      if [[ -n $error_line ]]; then code=75; fi
      break
    fi
    newest=$(newest_step "$directory")
    if ((${newest:--1} > ${before:--1})); then count=0; fi
    if ((count == restarts)); then
      if ((restarts > 0)); then
        echo "$name: a rank was lost again; no restart is left: $restarts without a new checkpoint" >&2
        code=70
      fi
      break
    fi
    ((++count))
    # --fresh still applies if the run has not removed the earlier checkpoints yet.
    if ! shares_line "$earlier" "$(checkpoint_files "$directory")"; then to_resume "$@"; fi
    echo "$name: a rank was lost; restarting from ${newest:+step }${newest:-the beginning}" \
      "(restart $count of $restarts without a new checkpoint)" >&2
  done
  trap - USR1 HUP TERM INT
  # USR1 ended the program before it installed its signal handlers.
  if ((stop_count > 0 && code == 128 + $(kill -l USR1))) && [[ $program == *_train ]]; then code=75; fi
  return "$code"
}

# Whether the training ended with code $1 because a rank has ended or hung.
has_lost_rank() {
  local code=$1 name
  local lost='the process of rank [0-9]+ has ended in |: rank [0-9]+ hangs|: hangs: it has been |without a response'
  lost+='|while the launcher ended the run|: another rank ended the run; '
  if [[ $program != *_train ]] || ((code != 70 && code <= 128)); then return 1; fi
  if declare -F may_restart >/dev/null && ! may_restart; then return 1; fi
  if [[ -n $error_line ]]; then
    [[ $error_line =~ $lost ]]
    return
  fi
  for name in HUP INT TERM USR1 XCPU; do
    if ((code == 128 + $(kill -l "$name"))); then return 1; fi
  done
  ((code > 128))  # all ranks were killed at once, for example because memory was exhausted
}

# The value of option $1 in the following words, or in the configuration file or the environment.
option_value() {
  local name=$1 word key value config=${CARILLON_CONFIG-} line
  local variable=${name//-/_}
  shift
  while (($# > 0)); do
    word=$1
    shift
    if [[ $word != --* ]]; then continue; fi
    key=${word%%=*}
    key=${key//_/-}
    if [[ $word == *=* ]]; then value=${word#*=}; else value=${1-}; fi
    if [[ $key == "--$name" ]]; then
      printf '%s\n' "$value"
      return
    fi
    if [[ $key == --config ]]; then config=$value; fi
  done
  if [[ -n $config ]]; then
    line=$(sed -nE "s/^[[:space:]]*${name//-/[-_]}[[:space:]]*=[[:space:]]*([^#]*[^#[:space:]]).*/\1/p" "$config" 2>/dev/null |
      head -n 1 || true)
    if [[ -n $line ]]; then
      printf '%s\n' "$line"
      return
    fi
  fi
  variable=CARILLON_${variable^^}
  printf '%s\n' "${!variable-}"
}

# The train directory of `program` with these options.
train_directory() {
  local directory
  directory=$(option_value train-dir "$@")
  if [[ -z $directory ]]; then
    case ${program##*/} in
      mnist_train) directory=runs/mnist ;;
      cifar10_train) directory=runs/cifar10 ;;
      image_train) directory=runs/images ;;
    esac
  fi
  printf '%s\n' "$directory"
}

# The step of the newest checkpoint in the directory $1; empty if there is none.
newest_step() {
  local file step newest=
  for file in "$1"/model.ckpt-*.h5; do
    step=${file##*/model.ckpt-}
    step=${step%.h5}
    if [[ $step =~ ^[0-9]{1,18}$ ]] && ((10#$step > ${newest:--1})); then newest=$((10#$step)); fi
  done
  echo "$newest"
}

# Prints a line for each checkpoint in the directory $1. Inode and time make the line unique to the file.
checkpoint_files() {
  stat -c '%i %Y %n' "$1"/model.ckpt-*.h5 2>/dev/null || true
}

# Whether the texts $1 and $2 have a line in common.
shares_line() {
  [[ -n $1 && -n $2 ]] && grep -qxFf <(printf '%s\n' "$1") <<<"$2"
}

# Sets `words` to these options without those that would start the training over.
to_resume() {
  local word name next fresh resume
  words=()
  while (($# > 0)); do
    word=$1
    name=${word%%=*}
    shift
    next=${1-}
    if [[ $name == --fresh ]]; then
      if [[ $word == --fresh && ${next,,} =~ ^(true|false|1|0|yes|no|on|off)$ ]]; then shift; fi
    elif [[ $word == --resume && $next == never ]]; then
      shift
    elif [[ $word != --resume=never ]]; then
      words+=("$word")
    fi
  done
  # A config file or the environment may have them, too.
  fresh=$(option_value fresh "${words[@]}")
  resume=$(option_value resume "${words[@]}")
  if [[ -n $fresh ]]; then words+=(--fresh=false); fi
  if [[ $resume == never ]]; then words+=(--resume=auto); fi
}
