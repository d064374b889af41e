#!/usr/bin/env bash
# Builds Carillon in a fresh clone, then trains and evaluates a classifier. Runs on Debian 12, Debian 13 and Ubuntu 24.04.
#
#   jobs/quickstart.sh
#
# The script installs missing packages, builds in build/, converts Fashion-MNIST to data/fashion-mnist, trains on two
# ranks in runs/quickstart, and evaluates. An earlier run in runs/quickstart is deleted. Training and evaluation take
# about a minute on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step=starting
announce() { step=$1; printf '\nquickstart: %s\n' "$step"; }
trap 'code=$?; echo "quickstart: failed while $step (exit code $code; see the message above)" >&2; exit $code' ERR

announce "installing missing packages"
jobs/install_deps.sh
source jobs/mpi_env.sh

announce "building the programs into build/"
mkdir -p build
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCARILLON_TESTS=OFF >build/configure.log 2>&1 ||
  { cat build/configure.log >&2; false; }
sed -n 's/^-- Building for /quickstart: for /p' build/configure.log
cmake --build build

announce "converting Fashion-MNIST to TFRecord files in data/fashion-mnist"
build/bin/tfrecord_convert mnist --input /usr/share/datasets/fashion-mnist --output data/fashion-mnist

announce "training on 2 ranks, 6000 steps of 2 x 100 images, into runs/quickstart"
mapfile -t launch < <(mpirun_on 2)
# The recipe is for digits. Pictures of clothes have twice as many bright pixels and require a lower learning rate.
"${launch[@]}" build/bin/mnist_train --config jobs/recipes/mnist_fast.cfg --learning-rate 0.3 \
  --data 'data/fashion-mnist/train-*.tfrecord' --train-dir runs/quickstart --fresh --log-every 500

announce "evaluating on the 10000 test images"
build/bin/mnist_eval --data 'data/fashion-mnist/test-*.tfrecord' --checkpoint runs/quickstart

cat <<'NEXT'

quickstart: done. Results and next steps:
  runs/quickstart/metrics.jsonl        loss, learning rate and speed, one JSON object per line
  runs/quickstart/model.ckpt-6000.h5   checkpoint; h5dump, HDFView and h5py can open it
  tensorboard --logdir runs            curves and histograms
  build/bin/carillon train FOLDER      training on your own pictures (docs/user-guide/carillon.md)
  docs/user-guide/first-training.md    training on MNIST, resuming, recipes
  docs/user-guide/clusters.md          training on several nodes
NEXT
