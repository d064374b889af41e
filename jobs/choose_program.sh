# These functions choose a program and start it. Other job scripts set `root`, then source this file.
#
#   choose_program NAME DEFAULT "$@"   sets `program` and `options`
#   launch NAME [OPTION...] -- COMMAND...   replaces the shell by `carillon launch`, which runs COMMAND
#
# `program` becomes the first word, or DEFAULT if the first word is an option. `options` become the remaining words. A
# program name without a slash is searched in this tree's build, then in the installation of these scripts, then in
# PATH. If there is no such program, the script NAME ends with exit code 66.
# shellcheck disable=SC2034  # the scripts use `options`
choose_program() {
  local name=$1
  program=$2
  shift 2
  if (($# > 0)) && [[ $1 != -* ]]; then
    program=$1
    shift
  fi
  options=("$@")
  local folder=$root/build/bin
  if [[ $root == */share/carillon ]]; then folder=$root/../../bin; fi
  if [[ $program != */* && -x $folder/$program ]]; then program=$folder/$program; fi
  if ! command -v "$program" >/dev/null; then
    echo "$name: no program $program (directory: $PWD): check its name, or build Carillon:" \
      "cmake -S . -B build -G Ninja -DCARILLON_TESTS=OFF && cmake --build build" >&2
    exit 66
  fi
}

# Searches for the program carillon in the folder of `program`, in this tree's build, in the installation of these
# scripts, and in PATH.
launch() {
  local name=$1 place carillon=carillon
  shift
  for place in "$(dirname "$(command -v "$program")")" "$root/build/bin" "$root/../../bin"; do
    if [[ -x $place/carillon ]]; then
      carillon=$place/carillon
      break
    fi
  done
  exec "$carillon" launch --name "$name" --program "$program" "$@"
}
