#!/usr/bin/env bash
# Packs the built programs with their libraries, Open MPI and scripts into one archive. The bundle runs on a machine
# that has CUDA, but not the packages of jobs/install_deps.sh. The bundle runs in any folder, and it does not require
# root.
#
#   jobs/make_bundle.sh [BUILD_DIR] [OUT.tar.xz|OUT.tar.gz]        default: build carillon-bundle.tar.xz
#
#   tar -xf carillon-bundle.tar.xz
#   carillon-bundle/bin/mpirun -np 2 carillon-bundle/bin/mnist_train ...
#   carillon-bundle/jobs/gpu_check.sh
#
# The other machine provides glibc (at least the version of the build machine), the GPU driver, CUDA, cuDNN and NCCL.
# The programs find these libraries in /usr/local/cuda and in the linker's paths; gpu_check.sh also searches Python
# packages. The bundle has no network plugins of Open MPI, so it runs on one machine only. This script requires patchelf
# and h5dump (jobs/install_deps.sh --bundle).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build}
out=${2:-carillon-bundle.tar.xz}
name=carillon-bundle
links=(mnist_train mnist_eval cifar10_train cifar10_eval image_train image_eval carillon_predict tfrecord_convert
  tfrecord_inspect checkpoint_tool)  # links to the program carillon

die() { echo "make_bundle: $2" >&2; exit "$1"; }
[[ $out == *.tar.xz || $out == *.tar.gz ]] || die 64 "$out: expected a name that ends in .tar.xz or .tar.gz"
for tool in patchelf h5dump mpirun orted ompi_info xz; do
  command -v "$tool" >/dev/null || die 66 "$tool is not installed (run jobs/install_deps.sh --bundle)"
done
for program in carillon "${links[@]}"; do
  [[ -x $build/bin/$program ]] || die 66 "no program $build/bin/$program (run cmake --build $build)"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/$name
mkdir -p "$bundle"/{bin,libexec,lib/openmpi3,lib/pmix,share,etc}

# These patterns match the libraries that the other machine provides: glibc, CUDA and the driver.
glibc='^(ld-linux.*|lib(c|m|mvec|dl|pthread|rt|resolv|util|anl|nsl|nss_.*|thread_db|BrokenLocale))\.so'
cuda='^lib(cuda|cudart|cudnn.*|cublas|cublasLt|nccl|nvrtc.*|nvJitLink|nvidia-.*|cupti|cufft|curand|cusolver|cusparse)\.so'

# Prints "soname path" for every library that the files load, directly or indirectly, except the libraries above. The
# path of a missing library is "not".
libraries_of() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" {print $1, $3}' | sort -u |
    while read -r soname path; do
      if [[ ! $soname =~ $glibc && ! $soname =~ $cuda ]]; then echo "$soname $path"; fi
    done
}

cp "$build/bin/carillon" "$bundle/libexec/"
while IFS= read -r test; do cp "$test" "$bundle/libexec/"; done < \
  <(find "$build/bin" -maxdepth 1 -type f -executable \
    \( -name '*gpu*test' -o -name kernels_test -o -name 'time_*_gpu' \))
for tool in mpirun orted h5dump; do cp "$(readlink -f "$(command -v $tool)")" "$bundle/libexec/$tool"; done

pmix_plugins=$(dirname "$(ldconfig -p | awk '/libpmix\.so/ {print $NF; exit}' | xargs readlink -f)")
pmix_plugins=$(find "$pmix_plugins" "$pmix_plugins"/.. -path '*pmix*' -name 'pmix_mca_*.so' -printf '%h\n' -quit)
mpi_plugins=$(ompi_info --parsable --path pkglibdir | cut -d: -f3)
mpi_share=$(ompi_info --parsable --path pkgdatadir | cut -d: -f3)

libraries_of "$bundle"/libexec/* >"$work/libraries"
# Copies only the plugins that need no other library than PMIx. All other plugins are for networks.
libraries_of "$mpi_plugins"/mca_pmix_ext*.so "$pmix_plugins"/*.so >>"$work/libraries"
for plugin in "$mpi_plugins"/*.so; do
  further=$(libraries_of "$plugin" | grep -vxFf "$work/libraries" || true)
  if [[ -z $further ]]; then cp "$plugin" "$bundle/lib/openmpi3/"; fi
done
cp "$pmix_plugins"/*.so "$bundle/lib/pmix/"
while read -r soname path; do
  [[ $path == /* ]] || die 66 "$soname: no such library on this machine"
  cp -L "$path" "$bundle/lib/$soname"
done < <(sort -u "$work/libraries")
cp -rL "$mpi_share" "$bundle/share/openmpi"
touch "$bundle/etc/openmpi-mca-params.conf" "$bundle/etc/pmix-mca-params.conf"

chmod u+w "$bundle"/lib/*.so* "$bundle"/libexec/*
strip --strip-unneeded "$bundle"/libexec/* "$bundle"/lib/*.so* "$bundle"/lib/*/*.so
# Sets RPATH, not RUNPATH: RPATH also applies to plugins and to libraries of libraries, unless they have a RUNPATH.
for library in "$bundle"/lib/*.so* "$bundle"/lib/*/*.so; do
  [[ -z $(patchelf --print-rpath "$library") ]] || patchelf --remove-rpath "$library"
done
for program in "$bundle"/libexec/*; do
  # shellcheck disable=SC2016  # the linker expands $ORIGIN
  patchelf --force-rpath --set-rpath \
    '$ORIGIN/../lib:/usr/local/cuda/lib64:/usr/local/cuda/targets/x86_64-linux/lib' "$program"
  ln -s ../run "$bundle/bin/$(basename "$program")"
done
for link in "${links[@]}"; do
  ln -s carillon "$bundle/libexec/$link"
  ln -s ../run "$bundle/bin/$link"
done
rm "$bundle/bin/orted"
if [[ -e $build/bin/libfaulty_calls.so ]]; then cp "$build/bin/libfaulty_calls.so" "$bundle/bin/"; fi
cp jobs/bundle_run.sh "$bundle/run"
chmod 755 "$bundle/run"

mkdir -p "$bundle"/{docs,tests/data}
cp -r jobs "$bundle/"
cp -r tests/acceptance tests/benchmarks "$bundle/tests/"
mkdir "$bundle/tests/gpu"
cp tests/gpu/*.py "$bundle/tests/gpu/"
cp -r tests/data/samples "$bundle/tests/data/"
cp docs/user-guide/gpus.md docs/developer-guide/gpu-tower.md "$bundle/docs/"
find "$bundle" -name __pycache__ -prune -exec rm -rf {} +
{
  echo "commit $(git describe --always --dirty 2>/dev/null || echo unknown)"
  echo "glibc $(cat "$bundle"/libexec/* "$bundle"/lib/*.so* | grep -aoE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1) or newer"
} >"$bundle/BUNDLE"

mkdir -p "$(dirname "$out")"
# The dictionary is large, because the programs and tests have much code in common.
compress=(xz --lzma2=preset=6,dict=128MiB)
if [[ $out == *.gz ]]; then compress=(gzip -9n); fi
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | "${compress[@]}" >"$out.part"
mv "$out.part" "$out"
echo "make_bundle: $out, $(($(stat -c %s "$out") / 1048576)) MiB, $(paste -sd, "$bundle/BUNDLE" | sed "s/,/, /")"
