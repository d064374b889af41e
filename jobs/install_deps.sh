#!/usr/bin/env bash
# Installs the packages that Carillon requires to build and run on Debian 12 or Ubuntu 24.04.
#
#   jobs/install_deps.sh            compiler, libraries, MPI, the Fashion-MNIST data set
#   jobs/install_deps.sh --tests    also the packages for the tests
#   jobs/install_deps.sh --fuzz     also clang 16, for the fuzz targets
#   jobs/install_deps.sh --lint     also clang-format 14, for CI's formatting check
#   jobs/install_deps.sh --cuda     also the headers of cudnn-frontend (install CUDA, cuDNN and NCCL from NVIDIA)
#   jobs/install_deps.sh --bundle   also the packages for make_bundle.sh
#   jobs/install_deps.sh --slurm    also Slurm, to test batch scripts (tests/slurm/cluster.sh)
#   jobs/install_deps.sh --list     prints the names of the libraries and installs nothing
#
# The script requires root or sudo. Without them, the script prints the missing packages and exits with 1.
set -euo pipefail

cudnn_frontend_version=1.32.0  # tested version; the interface changes between releases
onnxruntime_version=1.22.1     # runs exported models in tests; has wheels for the Python of both systems

libraries=(
  openmpi-bin libopenmpi-dev libhwloc-dev
  libhdf5-dev libboost-program-options-dev
  libdnnl-dev ocl-icd-opencl-dev opencl-headers  # oneDNN's CMake package requires OpenCL
  libprotobuf-dev protobuf-compiler
  libcurl4-openssl-dev libssl-dev  # tfrecord_convert --download
  libarchive-dev libisal-dev libfmt-dev nlohmann-json3-dev libjpeg-dev libpng-dev zlib1g-dev libeigen3-dev
  libfreetype-dev fonts-dejavu-core  # text in sheets of pictures
  libtiff-dev libwebp-dev libgif-dev  # optional: other picture formats (CARILLON_PICTURE_FORMATS)
)
packages=(build-essential g++ cmake ninja-build pkg-config file "${libraries[@]}"
  ca-certificates dataset-fashion-mnist)

# Returns whether a compiler or CMake finds cudnn-frontend.
has_cudnn_frontend() {
  local folder
  for folder in /usr/local/include /usr/include /usr/local/cuda/include "$HOME/.local/include"; do
    if [[ -e $folder/cudnn_frontend.h ]]; then return 0; fi
  done
  return 1
}

# A test loads the module file with Environment Modules and with Lmod. The Debian packages of both module systems
# conflict, and an installed package changes every login shell. So both packages are unpacked into a separate folder.
module_systems=(environment-modules lmod)
module_folder=/usr/local/share/carillon-tests

has_module_systems() {
  local name folder
  for name in "${module_systems[@]}"; do
    for folder in "$module_folder" "$HOME/.local/share/carillon-tests"; do
      if [[ -d $folder/$name ]]; then continue 2; fi
    done
    return 1
  done
}

# Debian and Ubuntu have no package of onnxruntime, so it comes from PyPI. tests/acceptance/onnx_run.py looks in the
# same folders.
has_onnxruntime() {
  [[ -d $module_folder/onnxruntime || -d $HOME/.local/share/carillon-tests/onnxruntime ]]
}

wants_cudnn_frontend=false
wants_module_systems=false
wants_onnxruntime=false
for argument in "$@"; do
  case $argument in
    --tests)
      packages+=(ccache libgtest-dev libgmock-dev python3-numpy python3-h5py hdf5-tools iproute2 groff-base man-db doxygen)
      packages+=(tcl8.6 lua5.3 lua-filesystem lua-json lua-posix lua-term)  # for Environment Modules and Lmod
      if ! has_module_systems; then wants_module_systems=true; fi
      if ! has_onnxruntime; then
        wants_onnxruntime=true
        packages+=(python3-pip)
      fi
      ;;
    --fuzz) packages+=(clang-16 libclang-rt-16-dev libomp-16-dev) ;;
    --lint) packages+=(git clang-format-14) ;;
    --cuda)
      if ! has_cudnn_frontend; then
        wants_cudnn_frontend=true
        packages+=(python3-pip)
      fi
      ;;
    --bundle) packages+=(patchelf hdf5-tools xz-utils) ;;
    --list)
      printf '%s\n' "${libraries[@]}"
      exit 0
      ;;
    --slurm) packages+=(slurm-wlm munge iproute2) ;;
    *) echo "install_deps: unknown argument '$argument' (known: --tests, --fuzz, --lint, --cuda, --bundle, --slurm, --list)" >&2; exit 64 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps: this system has no dpkg (Debian 12 or Ubuntu 24.04); install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

# Prints the packages of the list that are not installed, one per line.
missing_packages() {
  local installed
  installed=$(dpkg-query --show --showformat='${db:Status-Abbrev}${Package}\n' "${packages[@]}" 2>/dev/null |
    sed -n 's/^.i. *//p') || true
  comm -23 <(printf '%s\n' "${packages[@]}" | sort -u) <(sort -u <<<"$installed")
}

# Sets the array as_root to the prefix that runs a command as root. Returns false if commands cannot run as root.
as_root=()
find_root() {
  if ((EUID == 0)); then return 0; fi
  if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then return 1; fi
  as_root=(sudo)
}

# Installs the headers from NVIDIA's Python package. Debian and Ubuntu have no package for them.
install_cudnn_frontend() {
  local folder=/usr/local/include
  find_root || folder=$HOME/.local/include
  echo "install_deps: installing the headers of cudnn-frontend $cudnn_frontend_version in $folder"
  wheel=$(mktemp -d)
  trap 'rm -rf "$wheel"' EXIT
  python3 -m pip download --quiet --no-deps --dest "$wheel" "nvidia-cudnn-frontend==$cudnn_frontend_version"
  python3 -m zipfile --extract "$wheel"/*.whl "$wheel/contents"
  "${as_root[@]}" mkdir -p "$folder"
  "${as_root[@]}" cp -r "$wheel"/contents/include/. "$folder"
}

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; }

# Unpacks the packages of the module systems. The folder gets its final name only when it is complete.
unpack_module_systems() (
  folder=$module_folder
  find_root || folder=$HOME/.local/share/carillon-tests
  echo "install_deps: unpacking ${module_systems[*]} into $folder"
  unpacked=$(mktemp -d)
  trap 'rm -rf "$unpacked"' EXIT
  cd "$unpacked"
  download=(apt-get -qq -o APT::Sandbox::User=root download "${module_systems[@]}")
  "${download[@]}" 2>/dev/null || { apt update && "${download[@]}"; }
  "${as_root[@]}" mkdir -p "$folder"
  for name in "${module_systems[@]}"; do
    "${as_root[@]}" rm -rf "$folder/.$name" "$folder/$name"
    "${as_root[@]}" dpkg-deb --extract "$name"_*.deb "$folder/.$name"
    "${as_root[@]}" mv "$folder/.$name" "$folder/$name"
  done
)

# Installs the Python package from PyPI into its own folder.
install_onnxruntime() {
  local folder=$module_folder
  find_root || folder=$HOME/.local/share/carillon-tests
  echo "install_deps: installing onnxruntime $onnxruntime_version in $folder"
  "${as_root[@]}" rm -rf "$folder/.onnxruntime"
  "${as_root[@]}" /usr/bin/python3 -m pip install --quiet --no-deps --root-user-action ignore \
    --target "$folder/.onnxruntime" "onnxruntime==$onnxruntime_version"
  "${as_root[@]}" mv "$folder/.onnxruntime" "$folder/onnxruntime"
}

# Installs the software that comes from no Debian package.
install_others() {
  if $wants_cudnn_frontend; then install_cudnn_frontend; fi
  if $wants_module_systems; then unpack_module_systems; fi
  if $wants_onnxruntime; then install_onnxruntime; fi
}

mapfile -t missing < <(missing_packages)
if ((${#missing[@]} == 0)); then
  install_others
  echo "install_deps: all ${#packages[@]} packages are installed"
  exit 0
fi

if ! find_root; then
  echo "install_deps: cannot install the missing packages without root or sudo: ${missing[*]}" >&2
  exit 1
fi

echo "install_deps: fetching the package lists"
apt update || echo "install_deps: could not fetch the package lists; continuing with the lists on this machine"
echo "install_deps: installing ${#missing[@]} of ${#packages[@]} packages: ${missing[*]}"
apt install --yes --no-install-recommends "${missing[@]}"

mapfile -t missing < <(missing_packages)
if ((${#missing[@]} != 0)); then
  echo "install_deps: still missing after apt-get: ${missing[*]}" >&2
  exit 1
fi
install_others
echo "install_deps: done"
