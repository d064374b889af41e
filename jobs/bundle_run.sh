#!/bin/sh
# This is the script `run` in a bundle (make_bundle.sh). The script starts a program of the bundle, or any command, with
# the libraries of the bundle. The files in the bundle's bin/ are links to this script.
#
#   bin/mnist_train ...            libexec/mnist_train
#   run COMMAND ...                e.g. run compute-sanitizer libexec/mnist_train ...
#
# The script needs no programs in PATH.
case $0 in
  */bin/* | bin/*) bundle=${0%/*}/.. ;;
  */*) bundle=${0%/*} ;;
  *) bundle=. ;;
esac
bundle=$(CDPATH='' cd -- "$bundle" && pwd -P) || exit 66

export PATH="$bundle/bin${PATH:+:$PATH}"
# Without these variables, Open MPI and PMIx would look for plugins, texts and settings in the folder of their
# installation on the build machine.
export OPAL_PREFIX="$bundle" OPAL_BINDIR="$bundle/libexec" OPAL_LIBDIR="$bundle/lib"
export OPAL_PKGLIBDIR="$bundle/lib/openmpi3" OPAL_SYSCONFDIR="$bundle/etc" OPAL_DATADIR="$bundle/share"
export OPAL_PKGDATADIR="$bundle/share/openmpi"
export PMIX_INSTALL_PREFIX="$bundle" PMIX_MCA_mca_base_component_path="$bundle/lib/pmix"
export PMIX_MCA_mca_base_param_files="$bundle/etc/pmix-mca-params.conf"
export HOME="${HOME:-/}"  # PMIx crashes if HOME is not set
export HWLOC_PLUGINS_PATH="$bundle/lib/hwloc"
# A bundle runs on one machine only, so Open MPI uses no ssh and no network transport.
export OMPI_MCA_plm=isolated OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 OMPI_MCA_oob_tcp_if_include=lo
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

case $0 in
  */bin/* | bin/*) exec "$bundle/libexec/${0##*/}" "$@" ;;
  *) exec "$@" ;;
esac
