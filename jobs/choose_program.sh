# Sourced by the scripts here, which set `root`: which program they start.
#
#   choose_program NAME DEFAULT "$@"   sets `program`, the first of the words where that is no option, else DEFAULT, and
#                                      `options`, the other words; ends the script NAME with 66 where there is no such program.
#                                      One without a slash is the one built in this tree, installed with these scripts, or
#                                      on the PATH
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
    echo "$name: no program $program, seen from $PWD (to build those of Carillon: cmake -S . -B build -G Ninja && cmake --build build)" >&2
    exit 66
  fi
}
