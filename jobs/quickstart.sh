#!/usr/bin/env bash
# From a fresh clone to a trained and evaluated classifier, in one command, on Debian 12 or Ubuntu 24.04.
#
#   jobs/quickstart.sh
#
# Installs what is missing, builds into build/, converts Fashion-MNIST into data/fashion-mnist, trains on two ranks into
# runs/quickstart (starting over each time) and evaluates. About a minute of training and evaluation on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step=starting
announce() { step=$1; printf '\nquickstart: %s\n' "$step"; }
trap 'code=$?; echo "quickstart: stopped while $step (exit code $code; the cause is above)" >&2; exit $code' ERR

announce "installing packages that are missing"
jobs/install_deps.sh
source jobs/mpi_env.sh

announce "building the programs into build/"
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCARILLON_TESTS=OFF >build.log 2>&1 ||
  { cat build.log >&2; false; }
cmake --build build

announce "converting Fashion-MNIST to TFRecord files in data/fashion-mnist"
build/bin/tfrecord_convert mnist --input /usr/share/datasets/fashion-mnist --output data/fashion-mnist

announce "training on 2 ranks, 6000 steps of 2 x 100 images, into runs/quickstart"
mapfile -t launch < <(mpirun_on 2)
# The recipe is for digits. Pictures of clothes have twice as many bright pixels, and bear a lower learning rate only.
"${launch[@]}" build/bin/mnist_train --config jobs/recipes/mnist_fast.cfg --learning-rate 0.3 \
  --data 'data/fashion-mnist/train-*.tfrecord' --train-dir runs/quickstart --fresh --log-every 500

announce "evaluating on the 10000 test images"
build/bin/mnist_eval --data 'data/fashion-mnist/test-*.tfrecord' --checkpoint runs/quickstart

cat <<'NEXT'

quickstart: done. What to look at next:
  runs/quickstart/metrics.jsonl        loss, learning rate and speed, a JSON object a line
  runs/quickstart/model.ckpt-6000.h5   the variables: h5dump, HDFView and h5py open it
  tensorboard --logdir runs            the same as curves, with histograms
  README.md                            MNIST itself, resuming, several nodes, your own recipe
NEXT
